// Which lock guards what, in a form that clang checks (-Wthread-safety in .bazelrc's clang builds). For other compilers
// the macros are empty.
#pragma once

#if defined(__clang__)
#define RONDO_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RONDO_THREAD_ANNOTATION(x)
#endif

// A type whose objects are locks; a type whose objects hold one for as long as they live.
#define RONDO_LOCKABLE(name) RONDO_THREAD_ANNOTATION(capability(name))
#define RONDO_SCOPED_LOCK RONDO_THREAD_ANNOTATION(scoped_lockable)
// Data that is used only with the lock held.
#define RONDO_GUARDED_BY(lock) RONDO_THREAD_ANNOTATION(guarded_by(lock))
// Functions: the caller holds the lock; must not hold it; gets it; gives it up; gets it if the result is `result`.
#define RONDO_REQUIRES(...) RONDO_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define RONDO_EXCLUDES(...) RONDO_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define RONDO_ACQUIRES(...) RONDO_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RONDO_RELEASES(...) RONDO_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define RONDO_TRY_ACQUIRES(result, ...) RONDO_THREAD_ANNOTATION(try_acquire_capability(result, ##__VA_ARGS__))
// A function that returns a reference to the lock.
#define RONDO_RETURNS_LOCK(lock) RONDO_THREAD_ANNOTATION(lock_returned(lock))
// A function that does with locks what the analysis cannot follow.
#define RONDO_UNCHECKED_LOCKS RONDO_THREAD_ANNOTATION(no_thread_safety_analysis)
