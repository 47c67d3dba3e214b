-- The head of a run is one value: head.go says what is where in it. These are its flags.
local has_mail, is_watched, has_rest, has_retention, is_closing, has_incompatible, is_exempt = 1, 2, 4, 8, 16, 32, 64

-- queue_state_of returns the place of a run by its head; false: there is none that can be read.
local function queue_state_of(head)
  return head and #head == 63 and string.sub(head, 9, 9)
end

-- nobody stands where the token of the owner does, and the digest of a workflow id.
local nobody = '\0\0\0\0\0\0\0\0'

-- moved returns a head in another place, where nobody owns the run.
local function moved(head, place)
  return string.sub(head, 1, 8) .. place .. nobody .. string.sub(head, 18)
end

-- refenced returns a head in another place, with the next epoch and a token.
local function refenced(head, place, token)
  local high, low = struct.unpack('>I4I4', head, 18)
  return string.sub(head, 1, 8) .. place .. token
    .. struct.pack('>I4I4', low == 4294967295 and high + 1 or high, low + 1) .. string.sub(head, 26)
end

-- with_status returns a head with a status; blocked is the one of runs that claims block.
local blocked = '\11'
local function with_status(head, status)
  return string.sub(head, 1, 49) .. status .. string.sub(head, 51)
end

-- flagged reports whether a head has a flag.
local function flagged(head, flag)
  return bit.band(string.byte(head, 51), flag) ~= 0
end

-- with_flag returns a head that has a flag, or has it no more.
local function with_flag(head, flag, set)
  local flags = string.byte(head, 51)
  flags = set and bit.bor(flags, flag) or bit.band(flags, bit.bnot(flag))
  return string.sub(head, 1, 50) .. string.char(flags) .. string.sub(head, 52)
end
