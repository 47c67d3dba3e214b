package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestOPS2_ViewsSurviveAServerThatIsKilled(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st := openURL(t, server.URL())
	defer st.Close()
	want := map[string]string{}
	for round := range 3 {
		for n := range 40 {
			v := store.View{Name: fmt.Sprint("view ", n), Filter: fmt.Sprint("id:", round)}
			if err := store.SaveView(t.Context(), st, v); err != nil {
				t.Fatal(err)
			}
			want[v.Name] = v.Filter
		}
		name := fmt.Sprint("view ", round)
		if err := store.DeleteView(t.Context(), st, name); err != nil {
			t.Fatal(err)
		}
		delete(want, name)
		server.Kill()
		if _, err := store.Views(t.Context(), st); err == nil {
			t.Error("views without a server: got no error")
		}
		server.Restart(t)
		got := map[string]string{}
		all, err := store.Views(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			got[v.Name] = v.Filter
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("views after the server was killed (-want +got)\n%s", diff)
		}
	}
}
