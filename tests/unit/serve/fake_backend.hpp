// A service without a load behind it.

#pragma once

#include "http_service.hpp"
#include "http_session.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verge::tool::test {

class fake_backend final : public serve_backend {
public:
    [[nodiscard]] const sample& latest() const override { return now; }
    [[nodiscard]] load_options options() const override { return settings; }
    void apply(const load_change& change) override {
        if (fails) throw std::runtime_error("no threads left");
        if (change.rate) settings.rate = *change.rate;
        if (change.time_out) settings.time_out = *change.time_out;
        if (change.engine) settings.engine = *change.engine;
        ++applied;
    }
    [[nodiscard]] http_stats stats() const override { return {.requests = 7}; }
    [[nodiscard]] bool room_for_events() const override { return room; }

    sample now;
    load_options settings;
    bool fails = false;
    bool room = true;
    int applied = 0;
};

inline constexpr const char* good_token = "0123456789abcdef";

struct fake_service {
    fake_backend backend;
    http_service service{backend, {"127.0.0.1", good_token, [] { return std::string("n0nce"); }}};
};

/// What a session says to bytes that come in pieces of a size: all of its outputs, one by one.
inline std::vector<http_output> outputs_for(http_service& service, std::string_view bytes,
                                            std::size_t piece = 4096) {
    http_session session(service);
    std::vector<http_output> outputs;
    while (!bytes.empty()) {
        const std::size_t size = std::min({piece, bytes.size(), session.room()});
        session.receive(bytes.substr(0, size));
        bytes.remove_prefix(size);
        while (std::optional<http_output> out = session.next()) {
            outputs.push_back(std::move(*out));
            if (outputs.back().then != http_output::after::more) return outputs;
        }
    }
    return outputs;
}

}  // namespace verge::tool::test
