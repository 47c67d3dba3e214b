// Package env has workflow code that depends on where it runs.
package env

import (
	"os"
	"runtime"
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// regional asks the environment.
//
//flow:workflow
func regional(ctx workflow.Context, customer string) error {
	region := os.Getenv("REGION") // want `^os.Getenv depends on the process or machine, and a replay may be on another one: keep it with workflow.Record, or give it to the workflow as input \[env\]$`
	return shop.Notify(ctx, customer, region)
}

// named asks for the host.
//
//flow:workflow
func named(ctx workflow.Context, customer string) error {
	host, err := os.Hostname() // want `^os.Hostname depends`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, customer, host)
}

// wide asks how many processors there are.
//
//flow:workflow
func wide(ctx workflow.Context, items []string) error {
	return workflow.ForEach(ctx, items, func(ctx workflow.Context, item string) error {
		return shop.Reserve(ctx, item, 1)
	}, workflow.Limit(runtime.NumCPU())) // want `^runtime.NumCPU depends`
}

// local shows a time as it is where the worker stands.
//
//flow:workflow
func local(ctx workflow.Context, customer string) error {
	now := workflow.Now(ctx).In(time.Local) // want `^time.Local depends`
	return shop.Notify(ctx, customer, now.Format(time.Kitchen))
}

// flagged has a helper that asks for a flag.
//
//flow:workflow
func flagged(ctx workflow.Context, customer string) error {
	if enabled("NOTIFY") { // want `^env.enabled → os.LookupEnv \(env.go:\d+\) depends`
		return shop.Notify(ctx, customer, "hello")
	}
	return nil
}

func enabled(name string) bool {
	_, ok := os.LookupEnv(name)
	return ok
}

// numbered writes which process it is.
//
//flow:workflow
func numbered(ctx workflow.Context, customer string) error {
	return shop.Reserve(ctx, customer, os.Getpid()) // want `^os.Getpid depends`
}
