// bench/framework/workload.hpp -- what a workload is, what a peer is, and how both register.
//
// A workload is a folder.  Its own .cpp file registers a `workload`: a row of the table in
// bench/README.md.
// Each further .cpp file is one peer, named after it (`boost_fiber.cpp` is `boost-fiber`), and
// registers one function that runs the workload once on that peer:
//
//     const bench::add_peer registered{{.work = "churn", .name = "libev", .run = run_libev}};
//
// Files are found by a glob, so nothing else names them.  A peer file whose package is missing is
// not compiled; the framework then reports that the peer is left out.
//
// Not for tests: nothing here asserts a time.  What it does assert is equal work, see `outcome`.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

/// One parameter of a workload, and the flag of the same name.
struct parameter {
    std::string name;
    std::vector<std::string> table;  ///< The values of the whole table.
    std::vector<std::string> quick;  ///< The values of --quick.
    /// A word out of `table` if both are 0, else an integer in [least, most].
    std::uint64_t least = 0;
    std::uint64_t most = 0;

    [[nodiscard]] bool is_word() const { return least == 0 && most == 0; }
    [[nodiscard]] bool takes(std::string_view value) const;
    [[nodiscard]] std::string what_it_takes() const;
};

/// The parameters of one case, in the order of the table.
class parameters {
public:
    void set(std::string name, std::string value, bool is_word);

    /// Precondition for both: the workload has the parameter.
    [[nodiscard]] std::uint64_t integer(std::string_view name) const;
    [[nodiscard]] const std::string& word(std::string_view name) const;

    [[nodiscard]] std::string as_json() const;  ///< `{"threads":2,"order":"ascending"}`
    [[nodiscard]] std::string as_text() const;  ///< `threads=2 order=ascending`

private:
    struct entry {
        std::string name, value;
        bool is_word;
    };
    [[nodiscard]] const entry& find(std::string_view name) const;

    std::vector<entry> entries_;
};

struct metric {
    std::string name;
    std::string unit;
};

/// One run of a peer.
struct job {
    parameters params;
    /// How long the measured part should last; a workload that counts operations turns it into a
    /// number of them, the same for every peer, so that checksums can be compared.
    double seconds = 1;
    bool quick = false;
};

/// What a run found.  Metrics that the workload does not declare are an error.
struct outcome {
    std::map<std::string, double> figures;
    /// Equal for all peers and runs of one case, or the work was not equal and no figure counts:
    /// for instance a hash over the deadlines in the order in which they fired.
    std::uint64_t checksum = 0;
};

struct workload {
    std::string name;
    std::string summary;
    std::vector<parameter> params;
    std::vector<metric> metrics;
    double seconds = 1;           ///< Of one run, unless --seconds is given.
    double quick_seconds = 0.05;  ///< The same under --quick.
    /// False for a combination of table values that the table does not have.  Values that the user
    /// asks for are always run.
    std::function<bool(const parameters&)> in_table = nullptr;
};

struct peer {
    std::string work;
    std::string name;
    std::function<outcome(const job&)> run;
    /// False for cases that this peer cannot take in reasonable time and memory.
    std::function<bool(const parameters&)> takes = nullptr;
};

/// Registers a workload, from a namespace-scope object.
struct add_workload {
    explicit add_workload(workload added);
};

/// Registers a peer, from a namespace-scope object.
struct add_peer {
    explicit add_peer(peer added);
};

/// A peer that was not built because its package was missing.
struct missing_peer {
    std::string name;
    std::string package;
};

/// All workloads, in the order of bench/README.md.
[[nodiscard]] const std::vector<workload>& workloads();

/// All peers of a workload, Verge first, then in the order of bench/README.md.
[[nodiscard]] std::vector<peer> peers_of(std::string_view work);

/// Every peer's name that anything knows, missing ones included.
[[nodiscard]] std::vector<std::string> known_peers();

[[nodiscard]] const std::vector<missing_peer>& missing_peers();

}  // namespace bench
