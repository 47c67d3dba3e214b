package cloudblobs

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob/s3blob"
)

// service answers the requests of a store.
type service struct {
	url      string
	requests atomic.Int64
}

// serve starts a service that answers requests with a handler.
func serve(t *testing.T, handler http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// open returns a store that waits and retries for a short time. Its driver does not retry.
func (s *service) open(t *testing.T) *Store {
	t.Helper()
	transport := &http.Transport{}
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &s.url, UsePathStyle: true, Retryer: aws.NopRetryer{}, HTTPClient: &http.Client{Transport: transport},
		Credentials: aws.AnonymousCredentials{},
	})
	bucket, err := s3blob.OpenBucket(t.Context(), client, "payloads", nil)
	if err != nil {
		t.Fatal(err)
	}
	store := New(bucket)
	store.limits.pause = time.Millisecond
	t.Cleanup(func() {
		_ = store.Close()
		transport.CloseIdleConnections()
	})
	return store
}

// fail answers with an error of S3.
func fail(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused by the test</Message></Error>", code)
	}
}

// isList reports whether a request lists the bucket.
func isList(r *http.Request) bool { return r.URL.Query().Get("list-type") == "2" }

type object struct {
	Key          string
	Size         int64
	LastModified time.Time
}

// list answers with the names of objects.
func list(w http.ResponseWriter, names ...string) {
	var result struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Contents    []object
	}
	for _, name := range names {
		result.Contents = append(result.Contents, object{Key: name, Size: int64(len(name)), LastModified: time.Unix(1_700_000_000, 0).UTC()})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result)
}

// numbered returns the name of a blob.
func numbered(n int) string { return "chain/" + strings.Repeat("0", 60) + fmt.Sprintf("%04x", n) }
