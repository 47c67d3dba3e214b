-- The header of a run is one value, whose layout is documented in value.go. These are its flags.
local has_unread, is_watched, has_rest, has_retention, is_closing, has_incompatible, is_exempt, is_limited = 1, 2, 4, 8, 16, 32, 64, 128

-- queue_state_of returns the queue state in the header of a run, or false if the header is
-- unreadable.
local function queue_state_of(header)
  return header and #header == 63 and string.sub(header, 9, 9)
end

-- nobody is the owner token of a run without an owner, and the digest of an absent workflow ID.
local nobody = '\0\0\0\0\0\0\0\0'

-- moved returns a header with another queue state and no owner.
local function moved(header, queue_state)
  return string.sub(header, 1, 8) .. queue_state .. nobody .. string.sub(header, 18)
end

-- refenced returns a header with another queue state, the next epoch and a token.
local function refenced(header, queue_state, token)
  local high, low = struct.unpack('>I4I4', header, 18)
  return string.sub(header, 1, 8) .. queue_state .. token
    .. struct.pack('>I4I4', low == 4294967295 and high + 1 or high, low + 1) .. string.sub(header, 26)
end

-- with_status returns a header with the given status. blocked is the status of runs that claims
-- block.
local blocked = '\11'
local function with_status(header, status)
  return string.sub(header, 1, 49) .. status .. string.sub(header, 51)
end

-- flagged reports whether a header has a flag.
local function flagged(header, flag)
  return bit.band(string.byte(header, 51), flag) ~= 0
end

-- with_flag returns a header with the flag set or cleared.
local function with_flag(header, flag, set)
  local flags = string.byte(header, 51)
  flags = set and bit.bor(flags, flag) or bit.band(flags, bit.bnot(flag))
  return string.sub(header, 1, 50) .. string.char(flags) .. string.sub(header, 52)
end
