class Choice: pass
def choose_k(*a,**k): raise NotImplementedError
def choose_strengths(*a,**k): raise NotImplementedError
