// tools/verge/engine.hpp -- what makes the calls of a load: one of three, each a part of the
// library.

#pragma once

#include "clients.hpp"
#include "load.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace verge::tool {

/// Begins to make calls when it is made.  All members from any thread.
class engine {
public:
    engine() = default;
    /// Ends at once; calls on their way are dropped.
    virtual ~engine() = default;
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;

    /// No new calls from now on; those that are open come to their ends.
    virtual void stop_sending() noexcept = 0;

    /// After stop_sending(): whether every call has its end and every timer too.
    [[nodiscard]] virtual bool done() const = 0;

    /// Adds its figures, but for worker_busy, to `sum`.
    virtual void add_to(load_figures& sum) const = 0;

    /// As tally::worker_busy(): one caller at a time.
    [[nodiscard]] virtual std::vector<double> worker_busy() = 0;
};

/// The settings must outlive the engine.
[[nodiscard]] std::unique_ptr<engine> make_thread_engine(const live_settings& settings,
                                                         unsigned workers, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<engine> make_fiber_engine(const live_settings& settings,
                                                        unsigned workers, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<engine> make_loop_engine(const live_settings& settings,
                                                       unsigned workers, std::uint64_t seed);

}  // namespace verge::tool
