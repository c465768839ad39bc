// The job's token: 128 random bits that a peer must present whenever it joins the job or opens a stream. See
// docs/protocol.md, "Security".
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// 32 hexadecimal digits from the system's random numbers.
std::string make_token();

// The token of this process: --token-file on the command line, else DTRAIN_TOKEN, else the token-file of --config, else
// empty. kNotFound or kUsage if the file cannot be
// used.
Result<std::string> token_of(const LaunchFlags& flags);

// Takes the same time wherever the two differ. Lengths may be guessed by time.
bool same_token(std::string_view a, std::string_view b);

// 127.0.0.0/8, ::1, localhost; with or without port and brackets; unix:PATH.
bool is_loopback(std::string_view address);

// May a scheduler listen on `address` with this token? Code::kDenied names the two ways to give one, and --insecure.
Result<> check_token_policy(std::string_view token, bool insecure, std::string_view address);

}  // namespace dtrain::job
