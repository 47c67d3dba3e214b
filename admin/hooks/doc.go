// Package hooks is the public HTTP endpoint of hooks: POST /hooks/{token} puts a payload into the run that has opened
// the hook. Mount it in a program that has a client of the store; it may be another one than those of the workers:
//
//	http.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
//
// The token is the only credential. Of a hook of [workflow.HookRequest] the payload is the request; of any other it is the
// body, as it is, which must be JSON of the type of the hook; no body is null. The header Idempotency-Key makes a payload arrive once.
//
// # Answers
//
//   - 202: the payload is durable. The run takes it when it comes to that.
//   - What the workflow answers, if the hook was opened with [workflow.RespondWith] and the answer is there in time;
//     otherwise 202, and the same request with the same Idempotency-Key gets the answer later.
//   - 404: the token is none, was never one, or its hook is closed: always the same answer, and never sooner than 100 ms.
//   - 400, 413, 422: the body is no JSON, is too large, does not fit the type of the hook. 408: it did not come in time.
//   - 429: more than 20 requests in a second with that token. 503: the store does not answer; the payload may
//     have arrived: send it again with the same Idempotency-Key. Both say when, by Retry-After.
//
// Errors are problems, see [admin.Problem]. Nothing here is written into the journal of operators: the log of the run has each
// payload, and strangers could fill the journal.
package hooks
