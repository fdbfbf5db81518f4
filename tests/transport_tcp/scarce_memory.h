// Replacements of operators new and delete, with which the k-th allocation of one thread can be made to fail.
#pragma once

namespace rondo::test {

// Counts the calling thread's allocations from now on, until the thread ends.
void CountThisThread();
// Makes the k-th allocation of the counted threads from now on fail; 0: no allocation fails.
void FailAllocation(int k);
// Whether an allocation has failed since FailAllocation.
bool AllocationFailed();

}  // namespace rondo::test
