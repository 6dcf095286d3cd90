// bench/framework/workload.cpp -- the registry, and the values of parameters.

#include "framework/workload.hpp"

#include "framework/text.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace bench {
namespace {

// Rows and peers are shown in this order; a name that is not here yet comes last.
constexpr std::array work_order{
    "rpc",   "rpc-cross", "churn",  "expire",   "sparse",     "late",     "burst", "spawn",
    "yield", "pingpong",  "remote", "sleepers", "fiber-late", "fairness", "post",  "loop-timer"};
constexpr std::array peer_order{"verge",        "verge-heap",  "verge-spin", "verge-loop",
                                "verge-plain",  "asio",        "libevent",   "libuv",
                                "libev",        "boost-fiber", "go",         "handrolled",
                                "ref-multimap", "ref-pq",      "ref-heap4",  "queue-only"};

template <class Order>
bool comes_before(const Order& order, const std::string& a, const std::string& b) {
    const auto place = [&](const std::string& name) {
        return std::find(order.begin(), order.end(), name) - order.begin();
    };
    return std::pair{place(a), a} < std::pair{place(b), b};
}

// Function-local: registration runs before main, in no known order.
std::vector<workload>& all_workloads() {
    static std::vector<workload> all;
    return all;
}

std::vector<peer>& all_peers() {
    static std::vector<peer> all;
    return all;
}

}  // namespace

bool parameter::takes(std::string_view value) const {
    if (is_word()) return std::find(table.begin(), table.end(), value) != table.end();
    const auto number = parse_integer(value);
    return number && *number >= least && *number <= most;
}

std::string parameter::what_it_takes() const {
    if (is_word()) return join(table, " or ");
    return "an integer from " + std::to_string(least) + " to " + std::to_string(most);
}

void parameters::set(std::string name, std::string value, bool is_word) {
    // Integers are kept as the shortest text: JSON has no leading zeros.
    if (!is_word) value = std::to_string(parse_integer(value).value());
    entries_.push_back({std::move(name), std::move(value), is_word});
}

const parameters::entry& parameters::find(std::string_view name) const {
    for (const entry& e : entries_) {
        if (e.name == name) return e;
    }
    throw std::logic_error("the workload has no parameter " + std::string(name));
}

std::uint64_t parameters::integer(std::string_view name) const {
    return parse_integer(find(name).value).value();
}

const std::string& parameters::word(std::string_view name) const {
    return find(name).value;
}

std::string parameters::as_json() const {
    std::vector<std::string> parts;
    for (const entry& e : entries_) {
        parts.push_back(quoted(e.name) + ":" + (e.is_word ? quoted(e.value) : e.value));
    }
    return "{" + join(parts, ",") + "}";
}

std::string parameters::as_text() const {
    std::vector<std::string> parts;
    for (const entry& e : entries_) {
        parts.push_back(e.name + "=" + e.value);
    }
    return join(parts, " ");
}

add_workload::add_workload(workload added) {
    std::vector<workload>& all = all_workloads();
    const auto after = [](const workload& a, const workload& b) {
        return comes_before(work_order, a.name, b.name);
    };
    all.insert(std::upper_bound(all.begin(), all.end(), added, after), std::move(added));
}

add_peer::add_peer(peer added) {
    std::vector<peer>& all = all_peers();
    const auto after = [](const peer& a, const peer& b) {
        return comes_before(peer_order, a.name, b.name);
    };
    all.insert(std::upper_bound(all.begin(), all.end(), added, after), std::move(added));
}

const std::vector<workload>& workloads() {
    return all_workloads();
}

std::vector<peer> peers_of(std::string_view work) {
    std::vector<peer> found;
    for (const peer& p : all_peers()) {
        if (p.work == work) found.push_back(p);
    }
    return found;
}

std::vector<std::string> known_peers() {
    std::vector<std::string> names;
    for (const peer& p : all_peers()) {
        names.push_back(p.name);
    }
    for (const missing_peer& m : missing_peers()) {
        names.push_back(m.name);
    }
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return comes_before(peer_order, a, b);
    });
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

const std::vector<missing_peer>& missing_peers() {
    // bench/CMakeLists.txt writes VERGE_BENCH_MISSING as "libev=libev-dev,libuv=libuv1-dev".
    static const std::vector<missing_peer> missing = [] {
        std::vector<missing_peer> found;
        for (const std::string& item : split(VERGE_BENCH_MISSING, ',')) {
            const std::size_t equals = item.find('=');
            if (equals == std::string::npos) continue;
            found.push_back({item.substr(0, equals), item.substr(equals + 1)});
        }
        return found;
    }();
    return missing;
}

}  // namespace bench
