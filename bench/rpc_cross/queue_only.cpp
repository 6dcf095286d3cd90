// bench/rpc_cross/queue_only.cpp -- `rpc-cross` without timers: what the queue alone costs.

#include "rpc_cross/rpc_cross.hpp"

namespace {

// Writes and reads as many bytes of a slot as an id has; there is no timer.
class no_service {
public:
    template <class F>
    struct slot {
        std::uint64_t id = 0;
    };

    template <class F>
    void prepare(slot<F>&, F) {}

    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        s.id += static_cast<std::uint64_t>(delay);
    }

    template <class F>
    bool cancel(slot<F>& s) {
        return s.id != 0;
    }

    [[nodiscard]] int thread_id() const { return 0; }
};

const bench::add_peer registered{
    {.work = "rpc-cross", .name = "queue-only", .run = bench::run_rpc_cross<no_service>}};

}  // namespace
