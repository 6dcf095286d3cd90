// tools/verge/terminal.hpp -- text that changes in place on a terminal, and signals that wait.

#pragma once

#include "view.hpp"
#include <verge/base/clock.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include <signal.h>

namespace verge::tool {

/// Whether standard output is a terminal that can go back in its text.
[[nodiscard]] bool on_terminal() noexcept;

/// As standard output, NO_COLOR and the locale have it.
[[nodiscard]] text_style terminal_style();

/// Text that each show() replaces.  The cursor is hidden meanwhile.
class in_place_text {
public:
    in_place_text() = default;
    ~in_place_text() { leave(); }
    in_place_text(const in_place_text&) = delete;
    in_place_text& operator=(const in_place_text&) = delete;

    void show(std::string_view text);
    /// Leaves the last text standing, and the cursor below it.
    void leave() noexcept;
    /// As if nothing had been shown.
    void erase();

private:
    std::string shown_;
    bool cursor_hidden_ = false;
};

/// How many rows the text takes on a terminal of this width: longer lines wrap.
[[nodiscard]] std::size_t rows_of(std::string_view text, std::size_t columns) noexcept;

/// SIGINT, SIGTERM, SIGTSTP and SIGWINCH do not act, but are taken one by one.  To be made before
/// any other thread: they inherit it.
class taken_signals {
public:
    taken_signals();
    /// What has not been taken acts.
    ~taken_signals();
    taken_signals(const taken_signals&) = delete;
    taken_signals& operator=(const taken_signals&) = delete;

    /// The next one; 0 if there is none until `deadline`.
    [[nodiscard]] int take_until(time_point deadline) const noexcept;

    /// Lets this one act as it does by default.
    void let_act(int signal) const noexcept;

private:
    sigset_t before_{};
    sigset_t taken_{};
};

}  // namespace verge::tool
