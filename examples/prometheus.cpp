// The figures of two timer threads as one page for Prometheus.

#include <verge/driver/timer_thread.hpp>
#include <verge/observe/prometheus.hpp>

#include <chrono>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

int main() {
    verge::timer_thread calls;
    verge::timer_thread sessions;
    for (int n = 0; n < 1000; ++n) {
        const auto time_out = calls.schedule_after(1min, [] {});
        if (n % 10 != 0) calls.cancel(time_out);
    }
    sessions.schedule_after(30min, [] {});

    // What a handler of GET /metrics would answer, with prometheus_text::content_type.
    verge::prometheus_text page("shop");
    page.add(calls.stats(), {{"timers", "calls"}});
    page.add(sessions.stats(), {{"timers", "sessions"}});
    page.add_value("orders", verge::stat_kind::counter, 17, "orders taken");
    const std::string text = page.text();
    std::fputs(text.c_str(), stdout);

    return text.find("shop_cancelled_total{timers=\"calls\"} 900\n") != std::string::npos ? 0 : 1;
}
