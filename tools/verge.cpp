// The verge program: arguments in, a demonstration out.

#include "demonstration.hpp"
#include "rpc_show.hpp"

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

namespace {

constexpr const char* usage =
    "usage: verge                  the same as verge rpc\n"
    "       verge rpc [SECONDS]    RPC calls with time-outs, live; 1 to 3600, 30 if not given\n"
    "       verge day [CALLS]      a day of time-outs in virtual time; 1 to 50,000,000, a million "
    "if\n"
    "                              not given\n";

// The number in `text`, if it is one from 1 to `most`.
std::optional<std::size_t> number(std::string_view text, std::size_t most) {
    std::size_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || value == 0 || value > most) return std::nullopt;
    return value;
}

int run(int argc, char** argv) {
    const std::string_view command = argc > 1 ? argv[1] : "rpc";
    if (argc == 2 && (command == "--help" || command == "-h")) {
        std::fputs(usage, stdout);
        return 0;
    }
    const bool day = command == "day";
    std::optional<std::size_t> count = day ? 1'000'000 : 30;
    if (argc > 2) count = number(argv[2], day ? most_calls : 3600);
    if (argc > 3 || !count || (!day && command != "rpc")) {
        std::fputs(usage, stderr);
        return 2;
    }
    return day ? demonstrate(*count) : show_rpc(static_cast<unsigned>(*count));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verge: %s\n", error.what());
        return 2;
    }
}
