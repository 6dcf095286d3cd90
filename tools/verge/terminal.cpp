// tools/verge/terminal.cpp -- size, colours and replaced lines of a terminal.

#include "terminal.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace verge::tool {

namespace {

constexpr std::string_view hide_cursor = "\x1b[?25l";
constexpr std::string_view show_cursor = "\x1b[?25h";
constexpr std::string_view clear_to_end_of_line = "\x1b[K";
constexpr std::string_view clear_below = "\x1b[J";

struct terminal_size {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

terminal_size size_now() noexcept {
    winsize size{};
    terminal_size result;
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return result;
    if (size.ws_col > 0) result.columns = size.ws_col;  // 0: unknown
    if (size.ws_row > 0) result.rows = size.ws_row;
    return result;
}

std::string_view variable(const char* name) noexcept {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string_view{} : value;
}

bool locale_has_unicode() {
    std::string_view locale;
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set counts
        locale = variable(name);
        if (!locale.empty()) break;
    }
    std::string lower(locale);
    for (char& c : lower)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
}

void write_all(std::string_view text) noexcept {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

// The first `rows` lines.
std::string_view first_lines(std::string_view text, std::size_t rows) noexcept {
    std::size_t end = 0;
    while (rows-- > 0 && end < text.size())
        end = std::min(text.find('\n', end), text.size() - 1) + 1;
    return text.substr(0, end);
}

}  // namespace

bool on_terminal() noexcept {
    return ::isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb" && !variable("TERM").empty();
}

text_style terminal_style() {
    text_style style;
    if (!on_terminal()) return style;
    style.columns = size_now().columns;
    style.colours = variable("NO_COLOR").empty();
    style.unicode = locale_has_unicode();
    return style;
}

std::size_t rows_of(std::string_view text, std::size_t columns) noexcept {
    std::size_t rows = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        const std::size_t wide = visible_columns(text.substr(0, end));
        rows += wide == 0 || columns == 0 ? 1 : (wide + columns - 1) / columns;
        text.remove_prefix(end + 1);
    }
    return rows;
}

void in_place_text::show(std::string_view text) {
    const terminal_size size = size_now();
    text = first_lines(text, size.rows > 2 ? size.rows - 1 : 1);
    std::string out;
    if (!cursor_hidden_) {
        cursor_hidden_ = true;
        out += hide_cursor;
    }
    // A terminal that has become narrower has wrapped the lines that are shown.
    const std::size_t up = std::min(rows_of(shown_, size.columns), size.rows - 1);
    if (up > 0) out += "\x1b[" + std::to_string(up) + "A\r";
    shown_ = text;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        out += text.substr(0, end);
        out += clear_to_end_of_line;
        out += '\n';
        text.remove_prefix(end + 1);
    }
    out += clear_below;
    write_all(out);
}

void in_place_text::leave() noexcept {
    shown_.clear();
    if (!cursor_hidden_) return;
    cursor_hidden_ = false;
    write_all(show_cursor);
}

void in_place_text::erase() {
    if (shown_.empty()) return;
    show({});
    leave();
}

taken_signals::taken_signals() {
    ::sigemptyset(&taken_);
    for (const int each : {SIGINT, SIGTERM, SIGTSTP, SIGWINCH})
        ::sigaddset(&taken_, each);
    ::pthread_sigmask(SIG_BLOCK, &taken_, &before_);
}

taken_signals::~taken_signals() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int taken_signals::take_until(time_point deadline) const noexcept {
    for (;;) {
        const duration left = std::max(deadline - steady_source{}.now(), duration::zero());
        const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
        const timespec wait{.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
        const int taken = ::sigtimedwait(&taken_, nullptr, &wait);
        if (taken > 0) return taken;
        // EINTR: something that is not taken was handled.
        if (errno != EINTR) return 0;
    }
}

void taken_signals::let_act(int signal) const noexcept {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);  // here it acts
    ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

}  // namespace verge::tool
