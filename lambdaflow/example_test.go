package lambdaflow_test

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/lambdaflow"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"
)

// newHandler opens the store and returns the handler that executes runs. AWS Lambda ends the process
// without notice, so nothing is closed.
func newHandler(ctx context.Context) (http.Handler, error) {
	st, err := store.OpenFromEnv(ctx)
	if err != nil {
		return nil, err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	return invoke.Handler(client, func(r workflow.Registrar) {
		orders.Register(r, &orders.Shop{Effects: os.Getenv("ORDERS_EFFECTS")})
	}, invoke.Config{
		Secrets: [][]byte{[]byte(os.Getenv("ORDERS_SECRET"))},
		Budget:  10 * time.Second, // The timeout of the function is 30 s.
		Lease:   12 * time.Second, // The default is Budget and 30 s.
	})
}

// A main function that executes orders on AWS Lambda.
func ExampleStart() {
	lambdaflow.Start(newHandler)
}
