// Annotations that say which lock guards which data. clang checks them (-Wthread-safety in .bazelrc's clang builds).
// For other compilers the macros are empty.
#pragma once

#if defined(__clang__)
#define RONDO_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RONDO_THREAD_ANNOTATION(x)
#endif

// RONDO_LOCKABLE: objects of the type are locks. RONDO_SCOPED_LOCK: objects of the type hold a lock until destruction.
#define RONDO_LOCKABLE(name) RONDO_THREAD_ANNOTATION(capability(name))
#define RONDO_SCOPED_LOCK RONDO_THREAD_ANNOTATION(scoped_lockable)
// Data that may be used only while the lock is held.
#define RONDO_GUARDED_BY(lock) RONDO_THREAD_ANNOTATION(guarded_by(lock))
// These annotate functions. The meanings, in the order of the macros: the caller must hold the lock; the caller must
// not hold it; the function acquires it; the function releases it; the function acquires it if it returns `result`.
#define RONDO_REQUIRES(...) RONDO_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define RONDO_EXCLUDES(...) RONDO_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define RONDO_ACQUIRES(...) RONDO_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RONDO_RELEASES(...) RONDO_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define RONDO_TRY_ACQUIRES(result, ...) RONDO_THREAD_ANNOTATION(try_acquire_capability(result, ##__VA_ARGS__))
// A function that returns a reference to the lock.
#define RONDO_RETURNS_LOCK(lock) RONDO_THREAD_ANNOTATION(lock_returned(lock))
// A function whose locking is too complex for the analysis.
#define RONDO_UNCHECKED_LOCKS RONDO_THREAD_ANNOTATION(no_thread_safety_analysis)
