// bench/expire/ref_multimap.cpp -- `expire` on std::multimap.

#include "expire/expire.hpp"
#include "queues/multimap_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "expire", .name = "ref-multimap", .run = bench::run_expire<bench::multimap_queue>}};

}  // namespace
