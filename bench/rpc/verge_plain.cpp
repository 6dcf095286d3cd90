// bench/rpc/verge_plain.cpp -- `rpc` on Verge's timer thread with plain locks: what the bias saves.

#include "rpc/rpc.hpp"
#include "services/verge_service.hpp"

namespace {

struct plain_service : bench::verge_service {
    plain_service()
        : verge_service(verge::timer_thread::options{.locks = verge::shard_locks::plain}) {}
};

const bench::add_peer registered{
    {.work = "rpc", .name = "verge-plain", .run = bench::run_rpc<plain_service>}};

}  // namespace
