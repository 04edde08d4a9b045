#include "work.h"

namespace sidelatch::softnic::nic {

std::string_view text(Post post) noexcept {
  switch (post) {
    case Post::done:
      return "posted";
    case Post::wrong_state:
      return "the queue pair's state does not allow it: sends need RTS, receives anything but RESET";
    case Post::full:
      return "the queue is full: poll completions first, or make it deeper";
    case Post::too_many_sges:
      return "more scatter/gather elements than the queue was made for";
    case Post::inline_too_long:
      return "more inline bytes than the queue pair was made for";
    case Post::wrong_kind:
      return "this kind of queue pair, or the inline flag, does not allow this operation";
    case Post::has_srq:
      return "the queue pair takes its receive requests from a shared receive queue";
  }
  return "unknown";
}

std::string_view text(CompletionStatus status) noexcept {
  switch (status) {
    case CompletionStatus::success:
      return "success";
    case CompletionStatus::local_length:
      return "local length error";
    case CompletionStatus::local_operation:
      return "local queue pair operation error";
    case CompletionStatus::local_protection:
      return "local protection error";
    case CompletionStatus::flushed:
      return "work request flushed";
    case CompletionStatus::window_bind:
      return "memory window bind error";
    case CompletionStatus::bad_response:
      return "bad response";
    case CompletionStatus::local_access:
      return "local access error";
    case CompletionStatus::remote_invalid_request:
      return "remote invalid request";
    case CompletionStatus::remote_access:
      return "remote access error";
    case CompletionStatus::remote_operation:
      return "remote operational error";
    case CompletionStatus::retry_exceeded:
      return "transport retry counter exceeded";
    case CompletionStatus::rnr_retry_exceeded:
      return "RNR retry counter exceeded";
  }
  return "unknown";
}

}  // namespace sidelatch::softnic::nic
