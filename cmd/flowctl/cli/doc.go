// Package cli implements the command flowctl for operators of workflows. A custom main function can
// add stores that flowctl does not support:
//
//	func main() {
//		os.Exit(cli.Main(context.Background(), cli.Config{Open: open}))
//	}
//
// Data are written to standard output, everything else to standard error. With --json both are
// JSON, in the forms of package admin. The exit codes are 0; 1: the store failed; 2: usage; 3: the
// run does not exist; 4: the state does not allow it; 5: some of several were refused; 8: a run
// that was waited for has not completed; 124: timeout; 130: interrupted.
package cli
