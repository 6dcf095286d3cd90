// bench/framework/report.cpp -- the forms in which figures leave the program.

#include "framework/report.hpp"

#include "framework/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

namespace bench {
namespace {

using row = std::vector<std::string>;

std::string ratio_text(double value, const figure* verge) {
    if (verge == nullptr || verge->value == 0) return "-";
    std::array<char, 64> buffer;
    std::snprintf(buffer.data(), buffer.size(), "%.2f", value / verge->value);
    return buffer.data();
}

// Columns as wide as their widest cell; the ones from `first_number` on are numbers.
std::string aligned(const std::vector<row>& rows, std::size_t first_number) {
    std::vector<std::size_t> widths;
    for (const row& r : rows) {
        widths.resize(std::max(widths.size(), r.size()));
        for (std::size_t i = 0; i < r.size(); ++i) {
            widths[i] = std::max(widths[i], r[i].size());
        }
    }
    std::string text;
    for (const row& r : rows) {
        std::string line;
        for (std::size_t i = 0; i < r.size(); ++i) {
            if (i != 0) line += "  ";
            line += i >= first_number ? pad_left(r[i], widths[i]) : pad_right(r[i], widths[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace

std::string json_line(const figure& f) {
    std::vector<std::string> runs;
    for (const double run : f.runs) {
        runs.push_back(json_number(run));
    }
    return "{\"work\":" + quoted(f.work) + ",\"peer\":" + quoted(f.peer) +
           ",\"params\":" + f.params.as_json() + ",\"metric\":" + quoted(f.metric) +
           ",\"value\":" + json_number(f.value) + ",\"runs\":[" + join(runs, ",") +
           "],\"unit\":" + quoted(f.unit) + "}";
}

std::string result_table(const std::vector<figure>& figures) {
    // One block per case and metric, so that peers are below each other.
    std::map<std::string, std::vector<const figure*>> blocks;
    std::vector<std::string> order;
    for (const figure& f : figures) {
        const std::string key = f.work + "\n" + f.params.as_text() + "\n" + f.metric;
        if (!blocks.contains(key)) order.push_back(key);
        blocks[key].push_back(&f);
    }
    std::vector<row> rows{{"work", "parameters", "metric", "peer", "unit", "figure", "x verge"}};
    for (const std::string& key : order) {
        const std::vector<const figure*>& block = blocks[key];
        const auto is_verge = [](const figure* f) { return f->peer == "verge"; };
        const auto verge = std::find_if(block.begin(), block.end(), is_verge);
        rows.emplace_back();
        for (const figure* f : block) {
            const bool first = f == block.front();
            rows.push_back({first ? f->work : "", first ? f->params.as_text() : "",
                            first ? f->metric : "", f->peer, f->unit, readable_number(f->value),
                            ratio_text(f->value, verge == block.end() ? nullptr : *verge)});
        }
    }
    return aligned(rows, 5);
}

std::string workload_list() {
    std::string text;
    for (const workload& work : workloads()) {
        std::vector<std::string> peers, params, metrics;
        for (const peer& p : peers_of(work.name)) {
            peers.push_back(p.name);
        }
        for (const parameter& p : work.params) {
            params.push_back("--" + p.name + " " + join(p.table, ","));
        }
        for (const metric& m : work.metrics) {
            metrics.push_back(m.name);
        }
        text += work.name + ": " + work.summary + "\n";
        text += "    peers    " + join(peers, ", ") + "\n";
        if (!params.empty()) text += "    params   " + join(params, "  ") + "\n";
        text += "    metrics  " + join(metrics, ", ") + "\n";
    }
    for (const missing_peer& missing : missing_peers()) {
        text += "left out: " + missing.name + ", because " + missing.package +
                " was not installed when this was built\n";
    }
    return text;
}

}  // namespace bench
