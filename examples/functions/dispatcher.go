package main

import (
	"context"
	"errors"
	"os"

	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// dispatcher calls the function for ready runs until ctx ends.
func dispatcher(ctx context.Context) (err error) {
	st, err := store.OpenFromEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	d, err := invoke.NewDispatcher(client, invoke.DispatcherConfig{
		Targets: []invoke.Target{{URL: os.Getenv("FUNCTIONS_URL"), Secret: []byte(os.Getenv("FUNCTIONS_SECRET"))}},
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}
