package invoke

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Codes of an [Error].
const (
	CodeMethod       = "method"        // 405: the request is not a POST
	CodeContentType  = "content_type"  // 415: the body is not application/json
	CodeTooLarge     = "too_large"     // 413: the body is larger than 4 KiB
	CodeTooSlow      = "too_slow"      // 408: the body has not arrived in time
	CodeMalformed    = "malformed"     // 400: the headers or the body cannot be read
	CodeSignature    = "signature"     // 401: the signature is missing, wrong, or of another key
	CodeExpired      = "expired"       // 401: the time of the request is not within five minutes of the clock of the function
	CodeReplayed     = "replayed"      // 409: the request was received before
	CodeUnknownRun   = "unknown_run"   // 404
	CodeEnded        = "ended"         // 410: the run has ended
	CodeOwned        = "owned"         // 409: a worker or another invocation executes the run
	CodeNotReady     = "not_ready"     // 409: the run waits, for example for an earlier run or for a limit
	CodeWrongBuild   = "wrong_build"   // 409: the run is pinned to another build
	CodeBlocked      = "blocked"       // 409: the code of this build does not match the log of the run
	CodeUnserved     = "unserved"      // 422: the function does not serve the workflow on the queue of the run
	CodeBusy         = "busy"          // 503: the process executes as many runs as it may, or is stopping
	CodeDeadline     = "deadline"      // 500: the platform ends requests before an invocation ends
	CodeUnavailable  = "unavailable"   // 503: the store does not answer
	CodeUnexpected   = "unexpected"    // 500
	CodeNotFunction  = "not_function"  // set by the dispatcher: the target did not answer as a handler does
	CodeUnreachable  = "unreachable"   // set by the dispatcher: there is no answer
	CodeRedirect     = "redirect"      // set by the dispatcher: the target redirects
	CodeNoProgress   = "no_progress"   // set by the dispatcher: the target answered for a run that it had not executed
	CodeInvalidRoute = "invalid_route" // set by the dispatcher: the target announces a route that cannot exist
)

var statusOf = map[string]int{
	CodeMethod: http.StatusMethodNotAllowed, CodeContentType: http.StatusUnsupportedMediaType, CodeTooLarge: http.StatusRequestEntityTooLarge,
	CodeTooSlow: http.StatusRequestTimeout, CodeMalformed: http.StatusBadRequest, CodeSignature: http.StatusUnauthorized,
	CodeExpired: http.StatusUnauthorized, CodeReplayed: http.StatusConflict, CodeUnknownRun: http.StatusNotFound, CodeEnded: http.StatusGone,
	CodeOwned: http.StatusConflict, CodeNotReady: http.StatusConflict, CodeWrongBuild: http.StatusConflict, CodeBlocked: http.StatusConflict,
	CodeUnserved: http.StatusUnprocessableEntity, CodeBusy: http.StatusServiceUnavailable, CodeUnavailable: http.StatusServiceUnavailable,
	CodeDeadline: http.StatusInternalServerError, CodeUnexpected: http.StatusInternalServerError,
}

// Error is the answer of a handler that has not executed a run. Except for CodeBlocked, the store is
// then unchanged. The fields Message and Fix are for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

func (e *Error) Error() string {
	text := "invoke: " + e.Message + " (" + e.Code + ")"
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

// Status returns the HTTP status of the error.
func (e *Error) Status() int {
	if s, ok := statusOf[e.Code]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// write sends the error. The status lets clients and proxies that do not know the format react.
func (e *Error) write(w http.ResponseWriter) {
	writeJSON(w, e.Status(), struct {
		Error *Error `json:"error"`
	}{e})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has gone
}

// StepTimeoutError reports steps that functions cannot execute, because an attempt may take longer
// than an invocation.
type StepTimeoutError struct {
	Budget time.Duration
	Steps  []SlowStep // sorted by name
}

// SlowStep is a step whose timeout is longer than the budget of an invocation.
type SlowStep struct {
	Name    string
	Timeout time.Duration
}

func (e *StepTimeoutError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "invoke: these steps may take longer than the budget of %v:", e.Budget)
	for _, s := range e.Steps {
		fmt.Fprintf(&b, " %s (timeout %v)", s.Name, s.Timeout)
	}
	b.WriteString(": set a shorter timeout= in their directives, raise the budget, or give them a queue= that workers serve and list the queues of the function in Config.Worker.Queues")
	return b.String()
}
