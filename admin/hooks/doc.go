// Package hooks is the public HTTP endpoint of hooks: POST /hooks/{token} sends a payload to the
// run that opened the hook. Mount it in a program with a client of the store, which need not be a
// worker:
//
//	http.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
//
// The token is the only credential. For a hook of [workflow.HookRequest] the payload is the
// request; for any other hook it is the body, which must be JSON of the type of the hook. An empty
// body is null. With the header Idempotency-Key a repeated payload arrives once.
//
// # Responses
//
//   - 202: the payload is durable. The run receives it when its code requests it.
//   - The response of the workflow, if the hook was opened with [workflow.RespondWith] and the
//     response is available in time; otherwise 202. A repetition of the request with the same
//     Idempotency-Key returns the response later.
//   - 404: the token is invalid, or its hook is closed. The response is the same in all cases, and
//     takes at least 100 ms.
//   - 400, 413, 422: the body is not JSON, is too large, or does not match the type of the hook.
//     408: it did not arrive in time.
//   - 429: more than 20 requests per second with that token. 503: the store does not respond; the
//     payload may have arrived: repeat the request with the same Idempotency-Key. Both have the
//     header Retry-After.
//
// Errors are problems, see [admin.Problem]. Payloads are not recorded in the journal of operators:
// the log of the run contains them, and unauthenticated callers could fill the journal.
package hooks
