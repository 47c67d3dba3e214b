package api_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/internal/typescript"
)

var update = flag.Bool("update", false, "write openapi.json, and the types of the client in clients/ts")

// TestOPS3_OpenAPIIsTheCommittedDocument proves that the committed document equals the document
// that is generated from the routes. Thus changes of the API appear in reviews.
func TestOPS3_OpenAPIIsTheCommittedDocument(t *testing.T) {
	committed(t, "openapi.json", api.OpenAPI())
}

func TestOPS3_TypesOfTheTypeScriptClientAreThoseOfTheDocument(t *testing.T) {
	types, err := typescript.API(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	committed(t, filepath.Join("..", "..", "clients", "ts", "src", "schema.ts"), types)
}

// committed reports a test error if generated data differ from a file.
func committed(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the routes differ from %s (-committed +got); go test ./admin/api -update writes it:\n%s", file, cmp.Diff(string(want), string(got)))
	}
}
