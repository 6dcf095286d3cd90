// verge/base/stats.hpp -- how every object of the library exports its statistics.
//
// An object has `stats()`, which returns a snapshot: a plain struct of numbers.  The snapshot has a
// `visit` that passes each of them with its name to a visitor, for programs that export them all:
//
//     struct timer_stats {
//         std::uint64_t fired = 0;
//         histogram_snapshot lateness;
//
//         template <class Visitor>
//         void visit(Visitor&& v) const {
//             v("fired", stat_kind::counter, fired, "timers that ran");
//             visit_histogram(v, "lateness", lateness, "nanoseconds from deadline to callback");
//         }
//     };
//
// The convention
//   name    lower_case, without the object's name: the exporter adds a prefix.
//   kind    counter: only grows, from 0 at construction; its rate is meaningful.
//           gauge: goes up and down, or is a maximum or a percentile.
//   value   std::uint64_t.  Everything counted is events, objects, bytes or nanoseconds: exact as
//           integers, while a double is exact up to 2^53 only.  Ratios and means are left to the
//           reader, who has both terms and can also compute them over an interval.
//   help    one phrase: what is counted, and its unit if it has one.
//   Names and kinds do not depend on the values: every visit passes the same list in the same
//   order.  The two strings are valid during the call only.
// Nothing in the library logs or prints.
//
// Thread safety: a snapshot is a value.  Exceptions: what the visitor throws, and std::bad_alloc.

#pragma once

#include <verge/base/histogram.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace verge {

enum class stat_kind {
    counter,  // only grows
    gauge,    // goes up and down
};

namespace detail {

/// The minimal visitor.
struct stat_visitor_archetype {
    void operator()(std::string_view name, stat_kind kind, std::uint64_t value,
                    std::string_view help) const noexcept;
};

}  // namespace detail

/// A visitor of statistics.
template <class V>
concept stat_visitor =
    std::invocable<V&, std::string_view, stat_kind, std::uint64_t, std::string_view>;

/// The type that `stats()` returns: a value with the `visit` of the convention above.
template <class T>
concept stats_snapshot = std::copyable<T> &&
    requires(const T& snapshot, detail::stat_visitor_archetype visitor) {
    snapshot.visit(visitor);
};

/// Passes a distribution as name_p50, name_p90, name_p99, name_p999 and name_max (gauges) and
/// name_count (a counter).
template <stat_visitor V>
void visit_histogram(V&& v, std::string_view name, const histogram_snapshot& values,
                     std::string_view help) {
    const auto tell = [&](const char* suffix, stat_kind kind, std::uint64_t value) {
        v(std::string_view(std::string(name) + suffix), kind, value, help);
    };
    tell("_p50", stat_kind::gauge, values.percentile(50));
    tell("_p90", stat_kind::gauge, values.percentile(90));
    tell("_p99", stat_kind::gauge, values.percentile(99));
    tell("_p999", stat_kind::gauge, values.percentile(99.9));
    tell("_max", stat_kind::gauge, values.max());
    tell("_count", stat_kind::counter, values.count());
}

}  // namespace verge
