package cloudblobs

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
)

// withoutAccount removes the configuration of AWS of this machine.
func withoutAccount(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ACCESS_KEY_ID", "flowgen")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
}

func TestOPS11_OpenReportsABucketThatCannotBeUsed(t *testing.T) {
	withoutAccount(t)
	var status int
	var code string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if status == 200 {
			list(w)
			return
		}
		fail(w, r, status, code)
	})
	at := "?endpoint=" + s.url + "&use_path_style=true&region=us-east-1"
	for _, c := range []struct {
		url    string
		status int
		code   string
		want   Reason
	}{
		{url: "s3://payloads" + at, status: 200},
		{url: "s3://payloads" + at + "&prefix=flowgen/", status: 200},
		{"s3://payloads" + at, 404, "NoSuchBucket", NoBucket},
		{"s3://payloads" + at, 403, "AccessDenied", Denied},
		{url: "s3://payloads" + at + "&regoin=x", want: Rejected},
		{url: "s3://", want: Rejected},
		{url: "payloads", want: Rejected},
		{url: "://", want: Rejected},
	} {
		status, code = c.status, c.code
		store, err := Open(t.Context(), c.url)
		if err == nil {
			if err := store.Close(); err != nil {
				t.Errorf("close %s: %v", c.url, err)
			}
		}
		var failure *Error
		if errors.As(err, &failure); (failure == nil) != (c.want == "") || failure != nil && (failure.Op != "open" || failure.Reason != c.want) {
			t.Errorf("Open(%s) answered with %d returns %v, want reason %q", c.url, c.status, err, c.want)
		}
	}
}
