package hooks_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The program receives the callback of a service, and a workflow responds to the callback.
func Example() {
	type greeting struct {
		Name string `json:"name"`
	}
	greet := shim.NewWorkflow[workflow.None, string]("hooks.greet", "", shim.WorkflowPolicy{})
	called, token := workflow.NewHook[greeting]("called"), workflow.NewValue[string]("token")

	st := memstore.New()
	defer st.Close()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	w := worker.New(client, worker.Config{})
	shim.BindWorkflow(w, greet, func(ctx workflow.Context, _ workflow.None) (string, error) {
		hook, err := called.Open(ctx, workflow.RespondWith(10*time.Second))
		if err != nil {
			return "", err
		}
		token.Set(ctx, hook.Token())
		g, err := hook.Receive(ctx)
		if err != nil {
			return "", err
		}
		return g.Name, hook.Answer(ctx, map[string]string{"hello": g.Name})
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	defer func() { stop(); <-done }()

	mux := http.NewServeMux()
	mux.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
	server := httptest.NewServer(mux)
	defer server.Close()

	run, err := greet.Start(ctx, client, workflow.None{})
	if err != nil {
		fmt.Println(err)
		return
	}
	secret, err := token.Wait(ctx, run)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := http.Post(server.URL+hooks.Prefix+secret, "application/json", strings.NewReader(`{"name":"Ada"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
	// Output: 200 {"hello":"Ada"}
}
