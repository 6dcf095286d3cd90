// bench/expire/ref_heap4.cpp -- `expire` on the reference 4-ary heap.

#include "expire/expire.hpp"
#include "queues/heap4.hpp"

namespace {

const bench::add_peer registered{
    {.work = "expire", .name = "ref-heap4", .run = bench::run_expire<bench::heap4>}};

}  // namespace
