// The job's token: 128 random bits that a peer must present whenever it joins the job or opens a stream. See
// docs/protocol.md, "Security".
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::job {

struct LaunchFlags;

// 32 hexadecimal digits from the system's random number generator.
std::string make_token();

// The token of this process, from the first of these that is given: --token-file on the command line, DTRAIN_TOKEN,
// token-file in --config or --preset. Empty if none is. Code::kNotFound if the file does not exist, kUsage if the token
// is not usable.
Result<std::string> token_of(const LaunchFlags& flags);

// A note that other users of this host can read the file; empty if they cannot, or no file is named.
std::string token_file_note(const std::string& path);

// Compares in a time that does not depend on where the tokens differ. It may reveal whether their lengths differ.
bool same_token(std::string_view a, std::string_view b);

// True for 127.0.0.0/8, ::1 and localhost, with or without a port and brackets, and for unix:PATH.
bool is_loopback(std::string_view address);

// Checks that a scheduler may listen on `address` with this token: an empty one is allowed only on loopback or with
// --insecure. Code::kDenied says how to give a token, and names --insecure.
Result<> check_token_policy(std::string_view token, bool insecure, std::string_view address);

// The check of check_token_policy, for a worker that joins the scheduler at `address`. A worker without a token need
// not try: either the scheduler has a token and refuses the worker, or it has none and refused to start.
Result<> check_token_to_join(std::string_view token, bool insecure, std::string_view address);

}  // namespace dtrain::job
