// A day of time-outs on a timing wheel, in virtual time.
//
// Calls arrive over the day and arm a time-out each.  Most are answered before, which cancels the
// time-out; the others must end at their very tick.  Who is answered, and when, is drawn before the
// wheel turns, so that what the wheel did can be compared with what it had to do.

#include "demonstration.hpp"

#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

std::string grouped(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t i = text.size(); i > 3; i -= 3)
        text.insert(i - 3, 1, ',');
    return text;
}

namespace {

using verge::tick;

constexpr tick second = 1000;  // a tick is a millisecond
constexpr tick minute = 60 * second;
constexpr tick hour = 60 * minute;
constexpr tick day = 24 * hour;

constexpr tick time_outs[] = {second, 5 * second, 30 * second, 2 * minute, 10 * minute, hour};
constexpr unsigned answered_of_100 = 97;

struct call : verge::wheel_timer {
    tick arrives = 0;
    tick due = 0;       // kept apart from the wheel's deadline(), to check it
    unsigned ends = 0;  // must be 1 at the end of the day
};

struct answer {
    tick at;
    call* to;
};

// What the day brings, each in order of time.
struct plan {
    std::vector<call> calls;
    std::vector<answer> answers;
};

plan draw_plan(std::size_t calls) {
    std::mt19937_64 random(2026);  // the same day every time
    plan drawn{std::vector<call>(calls), {}};
    drawn.answers.reserve(calls);
    for (std::size_t i = 0; i < calls; ++i) {
        call& c = drawn.calls[i];
        c.arrives = i * day / calls + random() % (day / calls);
        const tick time_out = time_outs[random() % std::size(time_outs)];
        c.due = c.arrives + time_out;
        if (random() % 100 < answered_of_100) {
            drawn.answers.push_back({c.arrives + 1 + random() % (time_out - 1), &c});
        }
    }
    std::sort(drawn.answers.begin(), drawn.answers.end(),
              [](const answer& a, const answer& b) { return a.at < b.at; });
    return drawn;
}

struct tally {
    std::uint64_t answered = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t early = 0;
    std::uint64_t late = 0;
    std::uint64_t lost = 0;     // no end, or two
    std::uint64_t wakeups = 0;  // how often a driver would have left its sleep
    std::size_t most_live = 0;
};

// One line that changes on a terminal; a line every four hours anywhere else.
class progress {
public:
    void update(tick now, const tally& so_far, std::size_t live) {
        if (now >= next_) show(now, so_far, live);
    }
    void show(tick now, const tally& so_far, std::size_t live) {
        next_ = now - now % step_ + step_;
        constexpr std::size_t width = 24;
        const std::size_t done = std::min<std::size_t>(width, now * width / day);
        const std::string bar = std::string(done, '#') + std::string(width - done, '.');
        std::printf("%s  %02u:%02u  [%s]  live %7s   answered %10s   timed out %9s%s",
                    on_terminal_ ? "\r" : "", static_cast<unsigned>(now / hour),
                    static_cast<unsigned>(now % hour / minute), bar.c_str(), grouped(live).c_str(),
                    grouped(so_far.answered).c_str(), grouped(so_far.timed_out).c_str(),
                    on_terminal_ ? "" : "\n");
        std::fflush(stdout);
    }
    void end() const {
        if (on_terminal_) std::puts("");
    }

private:
    const bool on_terminal_ = ::isatty(STDOUT_FILENO) == 1;
    const tick step_ = on_terminal_ ? 10 * minute : 4 * hour;
    tick next_ = 0;
};

// Turns the wheel from event to event, as a driver does that sleeps until next_bound().
tally live_through(plan& today, progress& line) {
    tally result;
    verge::timing_wheel<call> wheel;
    tick now = 0;
    const auto time_out = [&](call& c) {
        ++result.timed_out;
        ++c.ends;
        if (now < c.due) ++result.early;
        if (now > c.due) ++result.late;
    };
    auto arrival = today.calls.begin();
    auto reply = today.answers.begin();
    for (;;) {
        const tick next_arrival =
            arrival == today.calls.end() ? verge::never_tick : arrival->arrives;
        const tick next_reply = reply == today.answers.end() ? verge::never_tick : reply->at;
        const tick event = std::min(next_arrival, next_reply);
        for (auto bound = wheel.next_bound(); bound && *bound <= event;
             bound = wheel.next_bound()) {
            now = *bound;
            ++result.wakeups;
            wheel.advance(now, time_out);
        }
        if (event == verge::never_tick) break;
        now = event;
        wheel.advance(now, time_out);
        if (next_reply <= next_arrival) {
            call& c = *reply++->to;
            if (wheel.cancel(c)) {
                ++result.answered;
                ++c.ends;
            }
        } else {
            call& c = *arrival++;
            wheel.arm_after(c, c.due - now);
            result.most_live = std::max(result.most_live, wheel.size());
        }
        line.update(now, result, wheel.size());
    }
    line.show(now, result, wheel.size());
    for (const call& c : today.calls) {
        if (c.ends != 1) ++result.lost;
    }
    return result;
}

void print_row(const char* name, const std::string& value, const char* remark) {
    std::printf("  %-16s %14s   %s\n", name, value.c_str(), remark);
}

}  // namespace

int demonstrate(std::size_t calls) {
    std::printf(
        "Verge: a day on a timing wheel\n\n"
        "  %s calls arrive, and each arms a time-out of 1 s to 1 h.  %u of 100 are answered\n"
        "  before, which cancels the time-out.  The others must end at their very tick of 1 ms.\n"
        "  The day is virtual: it passes as fast as the wheel can turn.\n\n",
        grouped(calls).c_str(), answered_of_100);
    std::fflush(stdout);

    plan today = draw_plan(calls);
    progress line;
    const auto began = std::chrono::steady_clock::now();
    const tally result = live_through(today, line);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    line.end();

    const std::uint64_t operations = calls + result.answered + result.timed_out;
    char wall[32];
    char each[32];
    std::snprintf(wall, sizeof wall, "%.3f s", took.count());
    std::snprintf(each, sizeof each, "%.1f ns",
                  took.count() * 1e9 / static_cast<double>(operations));
    std::puts("");
    print_row("calls", grouped(calls), "time-outs armed");
    print_row("answered", grouped(result.answered), "time-out cancelled");
    print_row("timed out", grouped(result.timed_out), "time-out fired");
    print_row("early", grouped(result.early), "must be 0");
    print_row("late", grouped(result.late), "must be 0");
    print_row("lost", grouped(result.lost), "no end or two; must be 0");
    print_row("most live", grouped(result.most_live), "at once");
    print_row("wake-ups", grouped(result.wakeups), "of 86,400,000 ticks");
    print_row("wall time", wall, "for the whole day");
    print_row("per operation", each, "arm, cancel or fire, this program's own work included");

    const bool ok = result.early == 0 && result.late == 0 && result.lost == 0 &&
                    result.answered == today.answers.size() &&
                    result.timed_out == calls - today.answers.size();
    std::printf("\n%s\n", ok ? "ok: every call had exactly one end, at its time"
                             : "FAILED: the wheel did not do what the day demanded");
    return ok ? 0 : 1;
}
