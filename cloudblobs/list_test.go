package cloudblobs

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"gocloud.dev/blob"
)

func names(t *testing.T, s *Store, prefix, after string, limit int) []string {
	t.Helper()
	page, err := s.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range page {
		names = append(names, b.Name)
	}
	return names
}

func TestOPS11_S3ListsFromTheNameBeforeAPage(t *testing.T) {
	for bucketPrefix, prefix := range map[string]string{"": "chain/", "flowgen/": "chain/", "chain/": ""} {
		var asked []string
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			asked = append(asked, q.Get("prefix")+" after "+q.Get("start-after")+" limit "+q.Get("max-keys"))
			list(w, bucketPrefix+numbered(8), bucketPrefix+numbered(9))
		})
		store := s.open(t)
		if bucketPrefix != "" {
			store.bucket = blob.PrefixedBucket(store.bucket, bucketPrefix)
		}
		if got, want := names(t, store, prefix, numbered(7), 2), []string{numbered(8), numbered(9)}; !slices.Equal(got, want) {
			t.Errorf("List returns %q, want %q", got, want)
		}
		if want := []string{bucketPrefix + prefix + " after " + bucketPrefix + numbered(7) + " limit 2"}; !slices.Equal(asked, want) {
			t.Errorf("List requests %q, want %q", asked, want)
		}
	}
}

func TestOPS11_ListOmitsObjectsThatAreNoBlobs(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		list(w, "backup.tar", "chain/", numbered(1), numbered(2)+".tmp", "chain/x")
	})
	if got, want := names(t, s.open(t), "", "", 10), []string{numbered(1)}; !slices.Equal(got, want) {
		t.Errorf("List returns %q, want %q", got, want)
	}
}

func TestOPS11_AListThatIsNotSortedIsAnError(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { list(w, numbered(2), numbered(1)) })
	page, err := s.open(t).List(t.Context(), "", "", 10)
	if failure := (*Error)(nil); !errors.As(err, &failure) || failure.Reason != Unsorted {
		t.Errorf("List returns %v and %v, want reason %q", page, err, Unsorted)
	}
}
