// Package codectest tests implementations of [codec.BlobStore].
//
// The test of a store calls [Conformance] with a function that opens it:
//
//	func TestStore_KeepsTheContract(t *testing.T) {
//		dir := t.TempDir()
//		codectest.Conformance(t, func(t *testing.T) codec.BlobStore {
//			store, err := mystore.Open(dir)
//			if err != nil {
//				t.Fatal(err)
//			}
//			return store
//		})
//	}
package codectest
