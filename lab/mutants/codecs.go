package main

// coding returns a mutant of package codec. The named test of this package must kill it.
func coding(id, disabled, file, before, after, test string) Mutant {
	return working("engine/codec/"+id, disabled, "runtime/codec/"+file, before, after, test).in("runtime/codec")
}

// swapped is the test of the binding of payloads to their places.
const swapped = "TestOPS5_ASwappedPayloadIsRefused"

// codecMutants disable the rules by which payloads are sealed and opened.
var codecMutants = []Mutant{
	coding("owner", "payloads are not bound to their owner", "format.go",
		"return appendText(appendText(b, at.Owner), at.Field)", "return appendText(b, at.Field)", swapped),
	coding("field", "payloads are not bound to their field", "format.go",
		"return appendText(appendText(b, at.Owner), at.Field)", "return appendText(b, at.Owner)", swapped),
	coding("header", "the size and the key ID of a payload are not authenticated", "crypto.go",
		"state.text = appendPlace(append(state.text[:0], header...), at)\n	aead, nonce", "state.text = appendPlace(state.text[:0], at)\n	aead, nonce", "TestOPS5_StoredFormsStayReadable"),
	coding("salt-body", "a nonce encrypts two bodies", "crypto.go",
		"state.constant[:], nil, message)", "state.constant[:], nil, append(message[:n:n], message[len(b):]...))", "TestOPS5_DifferentPayloadsHaveDifferentSalts"),
	coding("salt-place", "equal payloads at different places have the same key and nonce", "crypto.go",
		"AppendUint64(appendPlace(b, at),", "AppendUint64(b,", "TestOPS5_EqualPayloadsDifferAtDifferentPlaces"),
	coding("payload-key", "all payloads of a key have the same key and nonce", "crypto.go",
		"append(append(append(s.info[:0], payloadInfo...), salt...), 0)", "append(append(s.info[:0], payloadInfo...), 0)", "TestOPS5_PayloadKeysAreThoseOfHKDF"),
	coding("secret", "a key with another secret under the same ID is not noticed", "crypto.go",
		" && v.(*sealing).secret == k.Secret", "", "TestOPS5_AKeyWithAChangedSecretReplacesItsCipher"),
	coding("key", "the key that a provider returns is not compared with the requested one", "codec.go",
		"err == nil && k.ID != id", "false", "TestOPS5_AFailingKeyProviderIsAKeyError"),
	coding("active", "a payload is sealed with an invalid key", "codec.go",
		"		err = k.check()\n", "", "TestOPS5_AnInvalidKeyIsRefused"),
	coding("plain", "payloads are stored unencrypted", "codec.go",
		"		flags |= encrypted\n", "", "TestOPS5_TheStoredFormContainsNoPlainText"),
	coding("size-sealed", "payloads of any size are sealed", "codec.go",
		"len(plain) > c.maxSize", "false", "TestOPS5_PayloadsAboveTheLimitAreRefused"),
	coding("size-opened", "payloads of any size are opened", "codec.go",
		"s.plainSize > uint64(c.maxSize)", "false", "TestOPS5_PayloadsAboveTheLimitAreRefused"),
	coding("checksum", "a payload that is not encrypted may be altered", "codec.go",
		"string(sum[:]) != string(s.salt)", "string(sum[:]) == \"\"", "TestOPS5_AnAlteredPayloadIsRefused"),
	coding("blob", "an altered blob is opened", "codec.go",
		"uint64(len(data)) != s.blobSize || string(hash[:]) != string(s.hash)", "uint64(len(data)) != s.blobSize && hash[0] == s.hash[0]", "TestOPS11_AMissingOrAlteredBlobIsABlobError"),
	coding("blob-lost", "a payload is sealed although its blob is not stored", "codec.go",
		"if err := c.blobs.Put(ctx, name, body); err != nil {", "if err := c.blobs.Put(ctx, name, body); err != nil && false {", "TestOPS11_AFailingBlobStoreLeavesNoStoredForm"),
	coding("bomb", "a payload is decompressed beyond its size", "compress.go",
		"io.LimitReader(d, int64(size)+1)", "d", "TestOPS5_ABombIsRefusedWithoutItsMemory"),
	coding("bomb-memory", "memory is allocated for the size that a payload claims", "compress.go",
		"size <= cheapSize+cheapRatio*len(body)", "true", "TestOPS5_ABombIsRefusedWithoutItsMemory"),
	coding("newer", "a payload of a newer release is opened as if it were of this one", "format.go",
		`if unknown := s.flags &^ known; r.problem == "" && unknown != 0 {`, `if unknown := s.flags &^ known; r.problem == "" && unknown > 0xff {`, "TestOPS5_UnknownFlagsAreOfANewerRelease"),
	coding("readable", "a file of keys that others can read is accepted", "keyfile.go",
		"mode&0o027 != 0", "mode&0o020 != 0", "TestOPS5_AFileOfKeysThatOthersCanReadIsRefused"),
	coding("reread", "a changed file of keys is not read", "keyfile.go",
		"	f.err = f.reload()\n", "", "TestOPS5_AFileOfKeysIsReadAgainWhenItChanges"),
	coding("printed", "a printed key contains its secret", "keys.go",
		"fmt.Fprint(s, k.String())", "fmt.Fprint(s, k.Text())", "TestOPS5_AKeyIsPrintedWithoutItsSecret"),
	coding("ids", "the keys of a codec do not identify it", "codec.go",
		`return strings.Join(ids, " ")`, `return strings.Join(ids[:1], " ")`, "TestOPS5_TheKeysOfACodecIdentifyIt"),
}
