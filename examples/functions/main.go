// Command functions processes the order of the quickstart without a worker. A function executes the
// run: it is an HTTP server that works for a few seconds per request. A dispatcher sends it the
// requests. Both are processes, which this command starts and restarts, as a platform does.
//
//	go run ./examples/functions
//	go run ./examples/functions -order order-1002 -crash-after 12
//	go run ./examples/functions -store redis://localhost:6379
//
// With -crash-after, the function is killed in the middle of the order. The next one continues, and
// no completed step is executed twice.
//
// The function is the program of a container for Cloud Run or of a plain server: see function.go.
// Module lambdaflow has the same function for AWS Lambda.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch os.Getenv("FUNCTIONS_ROLE") {
	case "function":
		err = function(ctx)
	case "dispatcher":
		err = dispatcher(ctx)
	default:
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "functions:", err)
		stop()
		os.Exit(1)
	}
}
