package hooks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// counted is an endless body that counts the bytes that are read from it.
type counted struct{ n int }

func (c *counted) Read(b []byte) (int, error) {
	c.n += len(b)
	return len(b), nil
}

// TestOPS3_NothingIsReadOfABodyForAnUnknownToken proves that the handler does not read the body of
// a request with a guessed token, so that the body uses no memory.
func TestOPS3_NothingIsReadOfABodyForAnUnknownToken(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	defer client.Close()
	sent := &counted{}
	w := httptest.NewRecorder()
	hooks.New(client, hooks.Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, hooks.Prefix+"guess", sent))
	if w.Code != http.StatusNotFound || sent.n != 0 {
		t.Errorf("got status %d after reading %d bytes, want 404 after none", w.Code, sent.n)
	}
}
