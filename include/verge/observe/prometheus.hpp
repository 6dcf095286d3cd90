// verge/observe/prometheus.hpp -- statistics as Prometheus text, to be served by any HTTP server.
//
//     verge::timer_thread calls, sessions;                       // examples/prometheus.cpp
//     ...
//     verge::prometheus_text page("shop");
//     page.add(calls.stats(), {{"timers", "calls"}});
//     page.add(sessions.stats(), {{"timers", "sessions"}});
//     page.add_value("orders", verge::stat_kind::counter, 17, "orders taken");
//     serve(page.text(), verge::prometheus_text::content_type);
//
//     # HELP shop_scheduled_total timers scheduled
//     # TYPE shop_scheduled_total counter
//     shop_scheduled_total{timers="calls"} 200123
//     shop_scheduled_total{timers="sessions"} 17
//     ...
//
// It renders every type that has the `visit` of verge/base/stats.hpp.  The format is text
// exposition 0.0.4, which every version of Prometheus reads.  Not for native histograms: a
// distribution is exported as percentiles, as visit_histogram() does.
//
// Guarantees, under the names of the tests that hold them (tests/unit/observe/prometheus_test.cpp)
//   ACounterEndsInTotal            and a name that ends so already is not changed.
//   SnapshotsShareHelpAndType      one HELP and one TYPE per metric, then all its series.
//   AnyInputGivesValidText         names are made valid, labels and help escaped, bytes that are
//                                  not UTF-8 replaced by '?'.
//   ToldAgainIsReplaced            the same name and labels again: the last value replaces it.
//   LabelsAreASet                  their order does not matter; the first of a name is used.
//   IntegersAreExact               all 64 bits.
//
// Thread safety: none; one thread at a time.
// Exceptions: std::bad_alloc, and what a snapshot's visit throws.

#pragma once

#include <verge/base/stats.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verge {

/// A name and a value, both any text.
using prometheus_label = std::pair<std::string_view, std::string_view>;

class prometheus_text {
public:
    /// The Content-Type to serve it with.
    static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

    /// Every metric's name begins with `prefix` and '_', unless `prefix` is empty.
    explicit prometheus_text(std::string_view prefix) : prefix_(prefix) {}

    /// Adds every figure of a snapshot.
    template <stats_snapshot Stats>
    prometheus_text& add(const Stats& snapshot, std::span<const prometheus_label> labels) {
        const std::string written = written_labels(labels);
        snapshot.visit(
            [&](std::string_view name, stat_kind kind, std::uint64_t value, std::string_view help) {
                put(name, kind, std::to_string(value), help, written);
            });
        return *this;
    }
    template <stats_snapshot Stats>
    prometheus_text& add(const Stats& snapshot,
                         std::initializer_list<prometheus_label> labels = {}) {
        return add(snapshot, std::span(labels.begin(), labels.size()));
    }

    /// Adds one figure.  A metric keeps the kind and the help that it was first added with.
    prometheus_text& add_value(std::string_view name, stat_kind kind, std::integral auto value,
                               std::string_view help,
                               std::initializer_list<prometheus_label> labels = {}) {
        put(name, kind, std::to_string(value), help,
            written_labels(std::span(labels.begin(), labels.size())));
        return *this;
    }
    /// The same for floating point; infinities and NaN are valid.
    prometheus_text& add_value(std::string_view name, stat_kind kind, double value,
                               std::string_view help,
                               std::initializer_list<prometheus_label> labels = {});

    /// The page so far.  Metrics stand in the order in which they were first added.
    [[nodiscard]] std::string text() const;

private:
    struct series {
        std::string labels;  // "" or {name="value",...}
        std::string value;
    };
    struct metric {
        std::string name;
        stat_kind kind;
        std::string help;  // escaped
        std::vector<series> told;
    };

    static std::string written_labels(std::span<const prometheus_label> labels);
    void put(std::string_view name, stat_kind kind, std::string value, std::string_view help,
             const std::string& labels);

    std::string prefix_;
    std::vector<metric> metrics_;
    std::size_t next_ = 0;  // index of the metric after the one last added
};

}  // namespace verge
