package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The program mounts the console next to its own pages. The console answers only browsers on the
// same machine unless its configuration has a Session or a Proxy.
func ExampleNew() {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("/flows/", console.New(admin.New(client), console.Config{Prefix: "/flows/", Store: "orders"}))

	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/flows/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode, answer.Request.URL.Path)
	// Output: 200 /flows/runs
}
