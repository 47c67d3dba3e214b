// Package lambdaflow serves the events of an AWS Lambda function with an [http.Handler], such as
// the handler of package runtime/invoke, which executes workflow runs within the time limit of a
// request.
//
// [Start] is the main function of a program for the runtime provided.al2023:
//
//	func main() {
//		lambdaflow.Start(func(ctx context.Context) (http.Handler, error) {
//			…
//		})
//	}
//
// A function accepts three kinds of events:
//
//   - requests to its function URL, with the invoke mode BUFFERED,
//   - requests to an HTTP API of API Gateway, with the payload format version 2.0,
//   - direct invocations with {"headers": {…}, "body": "…"}, which are POST requests to "/".
//
// Each of them returns the status, the headers and the body of the answer as
// {"statusCode": …, "headers": {…}, "body": "…"}. A different event is an [EventError].
//
// The context of a request ends at the deadline of the invocation, when AWS Lambda ends the
// process. Between two invocations the process is frozen: the handler must have finished its work
// when it returns.
package lambdaflow
