// bench/rpc_cross/handrolled.cpp -- `rpc-cross` on the hand-rolled timer thread.

#include "rpc_cross/rpc_cross.hpp"
#include "services/handrolled_service.hpp"

namespace {

const bench::add_peer registered{{.work = "rpc-cross",
                                  .name = "handrolled",
                                  .run = bench::run_rpc_cross<bench::handrolled_service>}};

}  // namespace
