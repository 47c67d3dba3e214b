package api_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin/api"
)

var update = flag.Bool("update", false, "write openapi.json")

// Clients are generated from the committed document: a change of it is seen in review.
func TestOPS3_OpenAPIIsTheCommittedDocument(t *testing.T) {
	if *update {
		if err := os.WriteFile("openapi.json", api.OpenAPI(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := api.OpenAPI(); !bytes.Equal(got, want) {
		t.Errorf("the routes differ from openapi.json (-committed +got); go test ./admin/api -update writes it:\n%s", cmp.Diff(string(want), string(got)))
	}
}
