// Replacements of operator new and operator delete that can make the k-th allocation of one thread fail.
#pragma once

namespace rondo::test {

// Counts the calling thread's allocations from now on, until the thread ends.
void CountThisThread();
// Makes the k-th allocation of the counted threads fail, counted from this call; 0: no allocation fails.
void FailAllocation(int k);
// Whether an allocation has failed since the latest FailAllocation.
bool AllocationFailed();

}  // namespace rondo::test
