// Operators new and delete of this program that can fail: the k-th allocation of one thread.
#pragma once

namespace rondo::test {

// From now on the calling thread's allocations are counted, until it ends.
void CountThisThread();
// Of the counted threads' allocations the k-th from now on fails; 0: none does.
void FailAllocation(int k);
// Whether it has, since FailAllocation.
bool AllocationFailed();

}  // namespace rondo::test
