// tools/verge/load.cpp -- runs an engine, changes it while it runs, and collects its counts.

#include "load.hpp"

#include "engine.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace verge::tool {

namespace {

constexpr std::array<std::pair<engine_kind, std::string_view>, 3> engine_names{{
    {engine_kind::thread, "thread"},
    {engine_kind::fiber, "fiber"},
    {engine_kind::loop, "loop"},
}};

std::unique_ptr<engine> make_engine(engine_kind kind, const live_settings& settings,
                                    unsigned workers, std::uint64_t seed) {
    switch (kind) {
        case engine_kind::thread:
            return make_thread_engine(settings, workers, seed);
        case engine_kind::fiber:
            return make_fiber_engine(settings, workers, seed);
        case engine_kind::loop:
            return make_loop_engine(settings, workers, seed);
    }
    throw std::invalid_argument("no such engine");
}

void check_rate(double rate) {
    // Written so that what is no number is refused too.
    if (!(rate >= load_options::least_rate && rate <= load_options::most_rate)) {
        throw std::invalid_argument("the rate must be 1 to 10000000 calls a second");
    }
}

void check_time_out(duration time_out) {
    if (time_out < load_options::least_time_out || time_out > load_options::most_time_out) {
        throw std::invalid_argument("the time-out must be 1 ms to 60 s");
    }
}

load_options checked(load_options options) {
    check_rate(options.rate);
    check_time_out(options.time_out);
    if (options.workers > load_options::most_workers) {
        throw std::invalid_argument("there are 256 workers at most");
    }
    if (options.workers == 0) {
        options.workers =
            std::clamp(std::thread::hardware_concurrency(), 1U, load_options::most_workers);
    }
    return options;
}

}  // namespace

std::string_view name_of(engine_kind engine) noexcept {
    for (const auto& [kind, name] : engine_names) {
        if (kind == engine) return name;
    }
    return "";
}

std::optional<engine_kind> engine_named(std::string_view name) noexcept {
    for (const auto& [kind, known] : engine_names) {
        if (known == name) return kind;
    }
    return std::nullopt;
}

std::string what_is_wrong(const load_figures& f) {
    std::string wrong;
    const auto expect = [&wrong](bool right, std::string_view otherwise) {
        if (right) return;
        if (!wrong.empty()) wrong += "; ";
        wrong += otherwise;
    };
    expect(f.calls == f.answered + f.timed_out, "calls are not answered + timed out");
    expect(f.timed_out == f.retried + f.given_up, "time-outs are not retried + given up");
    expect(f.on_their_way == 0, "calls are still on their way");
    expect(f.early == 0, "time-outs fired early");
    expect(f.lateness.count() == f.timed_out, "the lateness of a time-out is missing");
    // Each call ends by a timer that fires, its answer or its time-out, and each pause is one.
    expect(f.fired >= f.calls + f.retried, "timers did not fire");
    // Of a call's two timers at most one is cancelled.
    expect(f.cancelled <= f.calls, "more timers were cancelled than there were calls");
    expect(f.pending == 0, "timers are still pending");
    return wrong;
}

// Engines that were left come to their ends beside the one that runs, and are then folded into
// `past_`.
class load::impl {
public:
    explicit impl(const load_options& options) : options_(checked(options)) {
        set_live();
        engines_.push_back(next_engine());
    }

    void set_rate(double rate) {
        check_rate(rate);
        const std::lock_guard hold(lock_);
        options_.rate = rate;
        set_live();
    }

    void set_time_out(duration time_out) {
        check_time_out(time_out);
        const std::lock_guard hold(lock_);
        options_.time_out = time_out;
        set_live();
    }

    void set_engine(engine_kind kind) {
        const std::lock_guard hold(lock_);
        if (kind == options_.engine) return;
        const engine_kind before = std::exchange(options_.engine, kind);
        if (finishing_) return;
        try {
            engines_.push_back(next_engine());
        } catch (...) {
            options_.engine = before;
            throw;
        }
        engines_[engines_.size() - 2]->stop_sending();
        fold_those_done();
    }

    [[nodiscard]] load_options options() const {
        const std::lock_guard hold(lock_);
        return options_;
    }

    [[nodiscard]] load_figures figures() {
        const std::lock_guard hold(lock_);
        fold_those_done();
        load_figures sum = past_;
        for (const auto& each : engines_)
            each->add_to(sum);
        sum.worker_busy = engines_.back()->worker_busy();
        return sum;
    }

    bool finish_until(time_point deadline) {
        // The counts are polled: a notification at the end of each call would cost each of them.
        constexpr duration step = std::chrono::milliseconds(1);
        for (;;) {
            if (finished()) return true;
            const time_point at = now();
            if (at >= deadline) return false;
            std::this_thread::sleep_until(std::min(deadline_after(at, step), deadline));
        }
    }

private:
    bool finished() {
        const std::lock_guard hold(lock_);
        if (!std::exchange(finishing_, true)) engines_.back()->stop_sending();
        return std::all_of(engines_.begin(), engines_.end(),
                           [](const auto& each) { return each->done(); });
    }

    // Both under lock_, or before other threads use this object.
    void set_live() noexcept {
        // relaxed, twice: numbers, in no order.
        live_.rate.store(options_.rate, std::memory_order_relaxed);
        live_.time_out.store(options_.time_out.count(), std::memory_order_relaxed);
    }
    std::unique_ptr<engine> next_engine() {
        return make_engine(options_.engine, live_, options_.workers, options_.seed + made_++);
    }

    void fold_those_done() {
        for (auto each = engines_.begin(); each != engines_.end() - 1;) {
            if (!(*each)->done()) {
                ++each;
                continue;
            }
            (*each)->add_to(past_);
            each = engines_.erase(each);
        }
    }

    mutable std::mutex lock_;
    load_options options_;
    live_settings live_;
    bool finishing_ = false;
    std::uint64_t made_ = 0;                        // engines, so far
    load_figures past_;                             // of engines that are no more
    std::vector<std::unique_ptr<engine>> engines_;  // the last is the one that makes calls
};

load::load(const load_options& options) : impl_(std::make_unique<impl>(options)) {}
load::~load() = default;

void load::set_rate(double calls_per_second) {
    impl_->set_rate(calls_per_second);
}
void load::set_time_out(duration time_out) {
    impl_->set_time_out(time_out);
}
void load::set_engine(engine_kind engine) {
    impl_->set_engine(engine);
}
load_options load::options() const {
    return impl_->options();
}
load_figures load::figures() const {
    return impl_->figures();
}
void load::finish() {
    static_cast<void>(impl_->finish_until(never));
}
bool load::finish_until(time_point deadline) {
    return impl_->finish_until(deadline);
}

}  // namespace verge::tool
