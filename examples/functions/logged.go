package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// logged prints a line for each invocation.
func logged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request, answer bytes.Buffer
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &request), r.Body}
		began := time.Now()
		h.ServeHTTP(&copying{w, &answer}, r)
		var ask struct{ Run string }
		var got struct {
			Status string
			Due    *time.Time
			Error  struct{ Code string }
		}
		_ = json.Unmarshal(request.Bytes(), &ask)
		_ = json.Unmarshal(answer.Bytes(), &got)
		text := got.Status + got.Error.Code
		if got.Due != nil {
			text += fmt.Sprintf(", due in %v", time.Until(*got.Due).Round(time.Millisecond))
		}
		_, _ = fmt.Fprintf(os.Stdout, "%s: %s (%v)\n", cmp.Or(ask.Run, "dispatcher"), text, time.Since(began).Round(time.Millisecond))
	})
}

// copying is a response writer that keeps a copy of the body.
type copying struct {
	http.ResponseWriter
	body *bytes.Buffer
}

// Unwrap returns the writer of the server, for http.ResponseController.
func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *copying) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}
