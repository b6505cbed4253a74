from frazil.ops import CommitMethod as CommitMethod
