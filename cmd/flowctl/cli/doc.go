// Package cli is the command flowctl, for operators of workflows. A main of your own adds stores
// that flowctl does not know:
//
//	func main() {
//		os.Exit(cli.Main(context.Background(), cli.Config{Open: open}))
//	}
//
// Data goes to standard output, all else to standard error. With --json both are JSON, as package
// admin declares it. The exit code is 0; 1: the store has failed; 2: usage; 3: there is no such run;
// 4: the state does not allow it; 5: some of several were refused; 8: a run that was waited for has not completed;
// 124: there was no answer in time; 130: it was interrupted.
package cli
