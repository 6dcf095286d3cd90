// bench/churn/ref_heap4.cpp -- `churn` on the reference 4-ary heap.

#include "churn/churn.hpp"
#include "queues/heap4.hpp"

namespace {

const bench::add_peer registered{
    {.work = "churn", .name = "ref-heap4", .run = bench::run_churn<bench::heap4>}};

}  // namespace
