package codectest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func listDescribesBlobs(t *testing.T, k *kit) {
	before := time.Now()
	name := k.put(t, "", Data(1, 12345))
	page, err := k.store.List(t.Context(), k.prefix, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(page) != 1 || page[0].Name != name || page[0].Size != 12345 {
		t.Fatalf("List returns %v, want %s with 12345 bytes", page, name)
	}
	// Clocks of services differ, and their times have full seconds.
	if age := page[0].Time.Sub(before).Abs(); age > 10*time.Minute {
		t.Errorf("List returns the time %v for a blob stored at %v", page[0].Time, before)
	}
}

func listReturnsPages(t *testing.T, k *kit) {
	var want []string
	for i := range 10 {
		want = append(want, k.put(t, "", fmt.Append(nil, i)))
	}
	slices.Sort(want)
	for _, limit := range []int{1, 3, 5, 9, 10, 11, 2000} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page := k.list(t, k.prefix+"/", after, limit)
			if rest := len(want) - len(got); len(page) != min(limit, rest) {
				t.Fatalf("List after %q with limit %d returns %d of %d names", after, limit, len(page), rest)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d are\n%q, want\n%q", limit, got, want)
		}
	}
}

// listSortsNamesByBytes uses prefixes whose directories have another order than the names: "-" and
// "." are less than "/".
func listSortsNamesByBytes(t *testing.T, k *kit) {
	var want []string
	for _, more := range []string{"", "-b", ".b", "0", "B", "b", "_"} {
		for i := range 2 {
			want = append(want, k.put(t, more, fmt.Append(nil, i)))
		}
	}
	slices.Sort(want)
	if got := k.list(t, k.prefix, "", 100); !slices.Equal(got, want) {
		t.Errorf("List returns\n%q, want\n%q", got, want)
	}
	for i, after := range want {
		if got := k.list(t, k.prefix, after, 3); !slices.Equal(got, want[i+1:min(i+4, len(want))]) {
			t.Errorf("List after %s returns\n%q, want\n%q", after, got, want[i+1:min(i+4, len(want))])
		}
	}
}

func listFindsThePrefix(t *testing.T, k *kit) {
	inside, sibling := k.put(t, "", []byte("inside")), k.put(t, "2", []byte("sibling"))
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{prefix: k.prefix + "/", want: []string{inside}},
		{prefix: k.prefix + "2/", want: []string{sibling}},
		{prefix: k.prefix, want: []string{inside, sibling}},
		{prefix: inside, want: []string{inside}},
		{prefix: inside[:len(inside)-10], want: []string{inside}},
		{prefix: k.prefix + "3/"},
		{prefix: inside + "0"},
		{prefix: k.prefix + "/", after: k.prefix, want: []string{inside}},
		{prefix: k.prefix + "/", after: "a", want: []string{inside}},
		{prefix: k.prefix + "/", after: "z"},
		{prefix: k.prefix + "2/", after: inside, want: []string{sibling}},
	} {
		if got := k.list(t, c.prefix, c.after, 10); !slices.Equal(got, c.want) {
			t.Errorf("List(%q, %q) returns %q, want %q", c.prefix, c.after, got, c.want)
		}
	}
	var found bool
	for after := ""; ; {
		page := k.list(t, "", after, 1000)
		if found = found || slices.Contains(page, inside); found || len(page) == 0 {
			break
		}
		after = page[len(page)-1]
	}
	if !found {
		t.Errorf("List without a prefix does not return %q", inside)
	}
}

func listContinuesAfterADeletedName(t *testing.T, k *kit) {
	for i := range 7 {
		k.put(t, "", fmt.Append(nil, i))
	}
	var removed int
	for after := ""; ; {
		page := k.list(t, k.prefix+"/", after, 3)
		if len(page) == 0 {
			break
		}
		if err := k.store.Delete(t.Context(), page...); err != nil {
			t.Fatal(err)
		}
		removed += len(page)
		after = page[len(page)-1]
	}
	if removed != 7 {
		t.Errorf("pages have %d of 7 blobs while they are deleted", removed)
	}
}
