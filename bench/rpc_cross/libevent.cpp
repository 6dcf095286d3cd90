// bench/rpc_cross/libevent.cpp -- `rpc-cross` on libevent.

#include "rpc_cross/rpc_cross.hpp"
#include "services/libevent_service.hpp"

namespace {

const bench::add_peer registered{{.work = "rpc-cross",
                                  .name = "libevent",
                                  .run = bench::run_rpc_cross<bench::libevent_service>}};

}  // namespace
