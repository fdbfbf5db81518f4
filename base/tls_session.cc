#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/tls.h"
#include "base/tls_callbacks.h"

namespace rondo {
namespace {

bool IsAlert(int reason) { return reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256; }

// OpenSSL takes sizes as an int.
int Count(std::size_t bytes) { return static_cast<int>(std::min<std::size_t>(bytes, 1 << 30)); }

}  // namespace

Result<std::unique_ptr<TlsSession>> TlsSession::Make(std::shared_ptr<const TlsContext> context, Role role,
                                                     std::string peer, std::size_t buffer_bytes) {
  RONDO_CHECK(context != nullptr && buffer_bytes >= kTlsSmallBuffer);
  std::unique_ptr<TlsSession> session(new TlsSession(std::move(context), std::move(peer)));
  ERR_clear_error();
  BIO* near = nullptr;
  session->ssl_ = SSL_new(session->context_->context_);
  if (session->ssl_ == nullptr || BIO_new_bio_pair(&near, buffer_bytes, &session->wire_, buffer_bytes) != 1) {
    return rondo::Fail(ErrorCode::kOutOfMemory, "memory ran out while creating a TLS connection");
  }
  SSL_set_bio(session->ssl_, near, near);
  SSL_set_app_data(session->ssl_, session.get());
  session->gathered_ = std::make_unique<std::byte[]>(kTlsRecordBytes);
  const bool certificates = session->context_->mode() == TlsMode::kCertificates;
  if (role == Role::kClient) {
    // Certificates are verified even with a pre-shared key, because a server that does not know the key but presents a
    // certificate must not be trusted.
    SSL_set_verify(session->ssl_, SSL_VERIFY_PEER, TlsCallbacks::Judge);
    SSL_set_connect_state(session->ssl_);
  } else {
    SSL_set_verify(session->ssl_, certificates ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
                   TlsCallbacks::Judge);
    SSL_set_accept_state(session->ssl_);
  }
  return session;
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, std::string peer)
    : context_(std::move(context)), peer_(std::move(peer)) {}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
  BIO_free(wire_);
}

// ---- the connection's bytes ----

MutableBytes TlsSession::Room() {
  if (HasReceived()) return {};
  char* room = nullptr;
  const int bytes = BIO_nwrite0(wire_, &room);
  return {reinterpret_cast<std::byte*>(room), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

void TlsSession::Received(std::size_t bytes) {
  if (bytes == 0) return;
  char* place = nullptr;
  const int taken = BIO_nwrite(wire_, &place, Count(bytes));
  RONDO_CHECK(taken == Count(bytes), "{} bytes received, but there was room for {}", bytes, taken);
}

void TlsSession::ReceivedEnd() {
  if (!std::exchange(input_ended_, true)) BIO_shutdown_wr(wire_);
}

bool TlsSession::HasReceived() const { return BIO_ctrl_pending(SSL_get_rbio(ssl_)) != 0 || SSL_pending(ssl_) != 0; }

Bytes TlsSession::Unsent() const {
  if (BIO_ctrl_pending(wire_) == 0) return {};
  char* front = nullptr;
  const int bytes = BIO_nread0(wire_, &front);
  return {reinterpret_cast<const std::byte*>(front), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

void TlsSession::Sent(std::size_t bytes) {
  if (bytes == 0) return;
  char* place = nullptr;
  const int taken = BIO_nread(wire_, &place, Count(bytes));
  RONDO_CHECK(taken == Count(bytes), "{} bytes sent of {}", bytes, taken);
}

// ---- the protocol ----

Result<bool> TlsSession::Handshake() {
  if (failure_) return rondo::Fail(*failure_);
  if (established_) return true;
  if (input_ended_ && !HasReceived()) {
    return rondo::Fail(
        Broken(ErrorCode::kConnectionReset, "the other side closed the connection during the handshake"));
  }
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    if (context_->mode() == TlsMode::kPsk && SSL_session_reused(ssl_) != 1) {
      return rondo::Fail(Broken(ErrorCode::kAuth, "the other side did not prove that it knows the pre-shared key"));
    }
    established_ = true;
    return true;
  }
  const int why = SSL_get_error(ssl_, result);
  if (why == SSL_ERROR_WANT_WRITE) return false;
  if (why == SSL_ERROR_WANT_READ && !input_ended_) return false;
  return rondo::Fail(Fail());
}

Result<std::size_t> TlsSession::Write(std::span<const Bytes> pieces) {
  if (failure_) return rondo::Fail(*failure_);
  RONDO_CHECK(established_ && !finished_, "TLS: written before the handshake or after the end");
  BIO* const near = SSL_get_wbio(ssl_);
  std::size_t taken = 0;
  std::size_t gathered = 0;
  // Starts a record only if the buffer has room for a full record; otherwise a nearly full buffer would cause small
  // records.
  const auto has_room = [&] { return BIO_ctrl_get_write_guarantee(near) >= kTlsRecordBytes + kTlsOverheadBytes; };
  for (const Bytes piece : pieces) {
    std::size_t done = 0;
    while (done < piece.size()) {
      if (gathered == 0 && !has_room()) return taken;
      // Encrypts a full record directly from the caller's memory; collects smaller pieces, so that fewer records are
      // needed.
      const std::size_t part = std::min(piece.size() - done, kTlsRecordBytes - gathered);
      if (part == kTlsRecordBytes) {
        RONDO_TRY(PutRecord(piece.subspan(done, part)));
        taken += part;
      } else {
        std::memcpy(gathered_.get() + gathered, piece.data() + done, part);
        gathered += part;
        if (gathered == kTlsRecordBytes) {
          RONDO_TRY(PutRecord({gathered_.get(), gathered}));
          taken += std::exchange(gathered, 0);
        }
      }
      done += part;
    }
  }
  if (gathered != 0) {
    RONDO_TRY(PutRecord({gathered_.get(), gathered}));
    taken += gathered;
  }
  return taken;
}

Status TlsSession::PutRecord(Bytes bytes) {
  ERR_clear_error();
  if (++records_ >= records_per_key_) {
    records_ = 0;
    if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return rondo::Fail(Fail());
  }
  std::size_t written = 0;
  if (SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written) != 1) return rondo::Fail(Fail());
  RONDO_CHECK(written == bytes.size(), "a record of {} bytes took {}", bytes.size(), written);
  return {};
}

Result<std::size_t> TlsSession::Read(MutableBytes destination) {
  std::size_t done = 0;
  while (!failure_ && !ended_ && done < destination.size()) {
    if (!HasReceived()) {
      // In the most frequent case no received bytes remain. Then OpenSSL is not called. At the end of the stream
      // OpenSSL is not called either, because it would send the peer an alert.
      if (!input_ended_) break;
      Broken(ErrorCode::kConnectionReset, "the other side ended the stream without a TLS close");
      continue;
    }
    ERR_clear_error();
    std::size_t part = 0;
    if (SSL_read_ex(ssl_, destination.data() + done, destination.size() - done, &part) == 1) {
      done += part;
      continue;
    }
    const int why = SSL_get_error(ssl_, 0);
    if (why == SSL_ERROR_ZERO_RETURN) {
      ended_ = true;
    } else if (why == SSL_ERROR_WANT_WRITE || (why == SSL_ERROR_WANT_READ && !input_ended_)) {
      break;
    } else {
      Fail();  // if this call has bytes to return, the next call returns the error
    }
  }
  if (failure_ && done == 0) return rondo::Fail(*failure_);
  return done;
}

void TlsSession::Finish() {
  if (!established_ || failure_ || std::exchange(finished_, true)) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

std::string TlsSession::Describe() const {
  return fmt::format("TLS 1.3, {}, {}", SSL_get_cipher_name(ssl_), Name(context_->mode()));
}

// ---- errors ----

Error TlsSession::Broken(ErrorCode code, std::string_view text) {
  ErrorDetails details;
  details.code = code;
  details.message = fmt::format("TLS with {}: {}", peer_, text);
  details.address = peer_;
  failure_ = Error(std::move(details));
  return *failure_;
}

Error TlsSession::Fail() {
  const unsigned long first = ERR_peek_error();
  const int reason = ERR_GET_REASON(first);
  const bool ours = ERR_GET_LIB(first) == ERR_LIB_SSL;
  const char* const text = ERR_reason_error_string(first);
  const std::string theirs = text != nullptr ? text : "no reason given";
  ERR_clear_error();
  if (first == 0 || (ours && reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {  // within a record
    return Broken(ErrorCode::kConnectionReset, "the stream ended in the middle of a record");
  }
  if (ours && established_ && reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC) {
    return Broken(ErrorCode::kCorrupt, "bytes were changed on the way: a record's tag does not match");
  }
  const std::string words = ours ? WordsFor(reason) : "";
  const bool about_identity = !established_ || IsAlert(reason);
  return Broken(about_identity ? ErrorCode::kAuth : ErrorCode::kProtocol,
                words.empty() ? theirs : fmt::format("{} ({})", words, theirs));
}

// Returns a text for the error. If it is empty, OpenSSL's own text is used.
std::string TlsSession::WordsFor(int reason) const {
  const bool psk = context_->mode() == TlsMode::kPsk;
  std::string other_mode = psk ? "it refused the pre-shared key: it has another one, or none"
                               : "it refused the handshake: it does not use certificates";
  const auto refused = [&](std::string_view why) {
    if (psk) return other_mode;
    std::string text = fmt::format("it refused this process's certificate: {}", why);
    if (X509* const own = SSL_get_certificate(ssl_); own != nullptr) {
      text += fmt::format("; it is '{}', valid until {}", SubjectOf(own), TimeText(X509_get0_notAfter(own)));
    }
    return text;
  };
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_UNEXPECTED_MESSAGE: return "it does not speak TLS";
    case SSL_AD_REASON_OFFSET + SSL_AD_UNEXPECTED_MESSAGE: return "it does not speak TLS, but this process does";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION:
      return "one of the two sides supports only versions of TLS older than 1.3";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return psk ? "it presented a certificate instead of the pre-shared key" : judgement_;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return "it presented no certificate";
    case SSL_R_BINDER_DOES_NOT_VERIFY: return "it has another pre-shared key";
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_CERTIFICATE_SET:
      return !psk                ? "the two sides have no authentication method in common"
             : unknown_identity_ ? "it uses another pre-shared key: that key's identity differs from this process's"
                                 : "it offers no pre-shared key";
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_EXPIRED: return refused("it has expired, or is not valid yet");
    case SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA: return refused("it is not signed by a CA that the other side knows");
    case SSL_AD_REASON_OFFSET + SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_UNKNOWN: return refused("the other side did not accept it");
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REQUIRED:
      return "it requires a certificate, but this process has none";
    case SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER:
    case SSL_AD_REASON_OFFSET + SSL_AD_DECRYPT_ERROR:
    case SSL_AD_REASON_OFFSET + SSL_AD_INTERNAL_ERROR: return other_mode;
    default: return "";
  }
}

}  // namespace rondo
